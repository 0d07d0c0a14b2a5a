//! Answers of an origin to a request that it has not read to the end.

use crate::support::{After, Config, Exchange, Gate, Origin, start};

use super::uploading::{Manner, Size, Upload};
use super::{FRAMINGS, check};

/// What the origin does after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// It reads the body to its end.
    ReadsOn,
    /// It announces the close, sends FIN, and reads on until the gateway closes.
    Closes,
    /// It closes at once with bytes unread, which causes a reset.
    Resets,
    /// It neither reads nor closes.
    Stands,
}

const ANSWER: &str = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 14\r\n";

fn answer(exchange: &mut Exchange<'_>, behind: Behind, over: &Gate) -> std::io::Result<After> {
    let close = match behind {
        Behind::Closes => "Connection: close\r\n",
        _ => "",
    };
    exchange.write(format!("{ANSWER}{close}\r\nnot this large"))?;
    match behind {
        Behind::ReadsOn => {
            exchange.read_body()?;
            return Ok(After::Keep);
        }
        Behind::Closes => {
            exchange.wire.finish_writing();
            exchange.until_closed();
        }
        Behind::Resets => {}
        Behind::Stands => over.wait(),
    }
    Ok(After::Close)
}

#[test]
fn an_origins_early_answer_is_read_whole_by_a_client_that_uploads() {
    for behind in [
        Behind::ReadsOn,
        Behind::Closes,
        Behind::Resets,
        Behind::Stands,
    ] {
        let over = Gate::default();
        let origin = Origin::scripted({
            let over = over.clone();
            move |exchange| answer(exchange, behind, &over)
        });
        // Each upload has its own connection to the origin, so that none meets leftovers of another.
        let config = Config::to(origin.url()).upstream("pool = { max_idle = 0 }");
        let config = config.with("[log]\naccess = 'off'");
        let running = start(
            &config
                .beside("echo", "builtin:echo", "/open", "")
                .route("/*", ""),
        );
        let mut uploads = Vec::new();
        for framing in FRAMINGS {
            for (bytes, manner) in [
                (Size::Of(1024), Manner::SendingFirst),
                (Size::Of(64 * 1024), Manner::SendingFirst),
                (Size::Of(4 << 20), Manner::SendingFirst),
                (Size::Of(64 * 1024), Manner::Trickling),
                (Size::Endless, Manner::ReadingAlong),
            ] {
                uploads.push((Upload::new("/upload", framing, bytes, manner), 413));
            }
        }
        check(&running, &origin, &uploads);
        over.open();
    }
}
