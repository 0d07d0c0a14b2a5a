//! The gateways that are compared: nginx and one or more builds of Tollgate.

use std::path::Path;

use super::support::servers::{self, Process, await_port, nginx_frame, nginx_upstream};

/// A gateway that can be started.
pub struct Gateway {
    pub name: String,
    program: Program,
}

enum Program {
    /// nginx that passes bodies on as they come, through buffers of these sizes.
    Nginx {
        answer: &'static str,
        upload: &'static str,
    },
    /// The Tollgate at this path.
    Tollgate(String),
}

/// Returns the gateways to compare: nginx, then each build of Tollgate.
pub fn gateways() -> Vec<Gateway> {
    let nginx = |name: &str, answer, upload| Gateway {
        name: name.to_owned(),
        program: Program::Nginx { answer, upload },
    };
    let builds = servers::builds().into_iter().map(|build| Gateway {
        name: build.name,
        program: Program::Tollgate(build.path),
    });
    let nginx = [
        nginx("nginx", "4k", "16k"),
        nginx("nginx, buffers of 64 KiB", "64k", "64k"),
    ];
    nginx.into_iter().chain(builds).collect()
}

impl Gateway {
    /// Starts the gateway on core 0, in front of the origin at this address.
    pub fn start(&self, folder: &Path, port: u16, origin: &str) -> Process {
        let name = port.to_string();
        let process = match &self.program {
            Program::Nginx { answer, upload } => {
                let conf = nginx_conf(port, origin, answer, upload);
                servers::nginx(folder, &name, 0, &conf)
            }
            Program::Tollgate(path) => {
                servers::tollgate(path, folder, &name, &tollgate_conf(port, origin))
            }
        };
        await_port(port);
        process
    }
}

fn nginx_conf(port: u16, origin: &str, answer: &str, upload: &str) -> String {
    let upstream = nginx_upstream(origin);
    let http = format!(
        "{upstream}
         server {{
             listen 127.0.0.1:{port} backlog=4096;
             client_max_body_size 0;
             send_timeout 10m;
             proxy_buffering off;
             proxy_request_buffering off;
             proxy_buffer_size {answer};
             proxy_buffers 8 {answer};
             client_body_buffer_size {upload};
             proxy_http_version 1.1;
             proxy_read_timeout 10m;
             proxy_set_header Connection '';
             location / {{ proxy_pass http://origin; }}
         }}"
    );
    nginx_frame("", 25_000, &http)
}

fn tollgate_conf(port: u16, origin: &str) -> String {
    let listener = "max_connections = 11000\nmax_body_bytes = '1GiB'\nbody_timeout = '10m'";
    let others = "body_timeout = '10m'\n[[routes]]\npath = '/*'\nupstream = 'origin'";
    servers::tollgate_conf(port, listener, origin, others)
}
