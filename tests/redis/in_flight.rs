//! Units in flight that gateways share: of each gateway one number, which it announces.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::fleet::{CLIENT, Fleet};
use crate::support::origin::{After, Origin};
use crate::support::redis::Server;
use crate::support::{Client, Config, TOKEN, get};

const ALICE: &str = "X-Api-Key: alice\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn config(url: &str, upstream: &str, quota: &str) -> Config {
    let policy = format!("quota = '{quota}'\npartition = ['header:{CLIENT}']");
    Config::to(upstream)
        .policy("p", &policy)
        .route("/*", "policies = ['p']")
        .with(&format!(
            "[log]\naccess = 'off'\nformat = 'json'\n[store]\nurl = '{url}'\ntimeout = '10s'"
        ))
        .admin_token(TOKEN)
}

#[test]
fn experiment() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (Arc::clone(&now), Arc::clone(&most));
    let origin = Origin::scripted(move |exchange| {
        let (now, most) = &counted;
        most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
        exchange.read_body()?;
        thread::sleep(Duration::from_millis(5));
        now.fetch_sub(1, SeqCst);
        exchange.write(OK)?;
        Ok(After::Keep)
    });
    let server = Server::start();
    let url = format!("redis://{}", server.address());
    let fleet = Fleet::of(3, &config(&url, origin.url().as_ref(), "20 in flight"));
    let addresses = fleet.addresses();
    let policy = format!("quota = '20 in flight'\npartition = ['header:{CLIENT}']");
    let fleetm = Fleet::of(1, &Config::to(origin.url().as_ref() as &str).policy("p", &policy).route("/*", "policies = ['p']").with("[log]\naccess = 'off'").admin_token(TOKEN));
    let mut refused = 0;
    for n in 0..20 {
        refused += usize::from(get(addresses[0], "/", "X-Api-Key: bob\r\n").status == 429 && n >= 0);
    }
    println!("q=20 sequential refused {refused}");
    for (count, fleet) in [(30, &fleet), (60, &fleet), (100, &fleet), (30, &fleetm), (60, &fleetm), (100, &fleetm)] {
    let addresses = fleet.addresses();
    let n = addresses.len();
    let (mut ok, mut no) = (0, 0);
    let began = Instant::now();
    let until = began + Duration::from_secs(3);
    thread::scope(|scope| {
        let addresses = &addresses; let ask = move |i: usize| {
            let mut client = Client::connect(addresses[i % n]);
            let (mut ok, mut no) = (0, 0);
            while Instant::now() < until {
                match client.get("/", ALICE).status { 200 => ok += 1, _ => no += 1 }
            }
            (ok, no)
        };
        let clients: Vec<_> = (0..count).map(|i| scope.spawn(move || ask(i))).collect();
        for client in clients {
            let (a, b) = client.join().expect("answers");
            ok += a; no += b;
        }
    });
    println!("{n} gateways, {count} clients: admitted {ok} refused {no} most {}", most.load(SeqCst));
    }
    thread::sleep(Duration::from_millis(100));
    let fleet1 = Fleet::of(1, &config(&url, origin.url().as_ref(), "1 in flight"));
    let mut refused = 0;
    for _ in 0..2000 {
        refused += usize::from(get(fleet1.addresses()[0], "/", "X-Api-Key: eve\r\n").status == 429);
    }
    println!("q=1 sequential refused {refused} of 2000");
    let mut refused = 0;
    let mut client = Client::connect(fleet1.addresses()[0]);
    for _ in 0..2000 {
        refused += usize::from(client.get("/", "X-Api-Key: mal\r\n").status == 429);
    }
    println!("q=1 sequential on one connection refused {refused} of 2000");
    println!("{:?}", server.info("commandstats"));
}
