//! `transcript serve`: the endpoint of a host over HTTP (transcript contract 10, *Endpoint*).

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flowcell_engines::harness::transcripts::{CLAUDE_RELEASES, CODEX_RELEASES};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::normalize::{BODY, Reply, normalize};
use crate::args::ServeArgs;
use crate::environment::read_text;
use crate::errors::{Exit, Failure};
use crate::render::{Messages, Surface};

/// The one resource.
const PATH: &str = "/v1/transcript/normalize";
/// The largest token file, in bytes.
const TOKEN: u64 = 4_096;
/// Connections at one time; further ones wait to be accepted.
const CONNECTIONS: usize = 64;
/// Requests at one time whose body is held: together at most this many bodies, states and answers are in memory.
const REQUESTS: usize = 8;
/// How long the head of a request may take, and how long a connection may be idle between two.
const HEAD: Duration = Duration::from_secs(10);
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(20);
/// How long a request waits for its turn.
const TURN: Duration = Duration::from_secs(20);
/// How long a connection is kept for further requests, and how long the last of them may take to be read by its client.
const LIFE: Duration = Duration::from_secs(300);
const LAST: Duration = Duration::from_secs(60);
/// How long requests in progress have when the process is to stop; less than an interrupted command has in all.
const STOP: Duration = Duration::from_millis(1_500);

/// What every request is answered with.
struct Endpoint {
    /// The digest of the token: digests have one length, so a comparison tells nothing of the token's.
    token: [u8; 32],
    requests: Semaphore,
}

pub(crate) async fn run(surface: &mut Surface<'_>, args: &ServeArgs) -> Result<Exit, Failure> {
    let token = token(&args.token_file, surface.messages)?;
    if !args.listen.ip().is_loopback() {
        surface.messages.warn(
            "the token and the transcripts cross the network in the clear: put TLS before this address",
        );
    }
    let cannot = |error: std::io::Error| {
        Failure::usage("invalid_input", format!("cannot listen on {}: {error}", args.listen)).at("--listen")
    };
    let mut signals = crate::commands::listen()?;
    let listener = TcpListener::bind(args.listen).await.map_err(cannot)?;
    let url = format!("http://{}{PATH}", listener.local_addr().map_err(cannot)?);
    let endpoint = Arc::new(Endpoint { token, requests: Semaphore::new(REQUESTS) });
    let printed = if surface.json {
        let profiles = serde_json::json!({"codex-rollout": CODEX_RELEASES, "claude-code": CLAUDE_RELEASES});
        surface.document(&serde_json::json!({"listening": url, "releases": profiles}))
    } else {
        surface.text(&format!("listening on {url}\n"))
    };
    printed.map_err(|error| crate::commands::unprinted(&error))?;
    let cancel = CancellationToken::new();
    // Being stopped is the way in which this command is done.
    signals.or(accept(&listener, endpoint, &cancel), &cancel).await;
    Ok(Exit::Done)
}

/// The token: the file's text without the white space around it.
fn token(path: &Path, messages: Messages) -> Result<[u8; 32], Failure> {
    let text = read_text(path, TOKEN).map_err(|error| Failure::unreadable("the token file", path, error))?;
    let token = text.trim();
    let wrong = |why: &str| {
        Failure::usage("invalid_input", format!("the token file {} {why}", path.display()))
            .at(path.display().to_string())
            .hint("Write one line of letters, digits and -._~+/= to it, such as `head -c 32 /dev/urandom | base64` gives.")
    };
    if token.is_empty() {
        return Err(wrong("is empty"));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("holds more than one word of visible ASCII characters"));
    }
    if readable_by_others(path) {
        messages.warn(&format!("the token file {} can be read by others: chmod 600 it", path.display()));
    }
    Ok(Sha256::digest(token.as_bytes()).into())
}

fn readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

/// Serves until it is cancelled, and then lets what is in progress end.
async fn accept(listener: &TcpListener, endpoint: Arc<Endpoint>, cancel: &CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let place = tokio::select! {
            () = cancel.cancelled() => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        // The semaphore is never closed.
        let Ok(place) = place else { break };
        let stream = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // No file descriptor is left, or the client is gone: the next one may fare better.
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (endpoint, cancel) = (Arc::clone(&endpoint), cancel.clone());
        connections.spawn(async move {
            connection(stream, endpoint, cancel).await;
            drop(place);
        });
        // Those that have ended are let go of.
        while connections.try_join_next().is_some() {}
    }
    // What has not ended by then is dropped with the set.
    let _ = tokio::time::timeout(STOP, async { while connections.join_next().await.is_some() {} }).await;
}

async fn connection(stream: TcpStream, endpoint: Arc<Endpoint>, cancel: CancellationToken) {
    let service = service_fn(move |request| {
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(respond(&endpoint, request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(65_536)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = std::pin::pin!(served);
    // Faults of a client are its own: a connection that breaks says nothing.
    tokio::select! {
        _ = served.as_mut() => return,
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(LIFE) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(LAST, served).await;
}

async fn respond(endpoint: &Endpoint, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let reply = reply(endpoint, request).await;
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

async fn reply(endpoint: &Endpoint, request: Request<Incoming>) -> Reply {
    if request.uri().path() != PATH {
        return Reply::failure(404, "not_found", &format!("there is nothing here but {PATH}"));
    }
    if request.method() != Method::POST {
        return Reply::failure(405, "method_not_allowed", "records are sent with POST");
    }
    // Before anything of the body is read.
    if !endpoint.admits(&request) {
        return Reply::failure(401, "unauthorized", "the bearer token is missing or wrong");
    }
    let Ok(Ok(_turn)) = tokio::time::timeout(TURN, endpoint.requests.acquire()).await else {
        return Reply::failure(503, "busy", "too many requests are in progress");
    };
    let body = match tokio::time::timeout(BODY_TIME, collected(request.into_body())).await {
        Err(_) => return Reply::failure(408, "timeout", "the body took too long"),
        Ok(Err(_)) => return Reply::failure(400, "invalid_input", "the body broke off"),
        Ok(Ok(None)) => return Reply::too_large("the body", BODY),
        Ok(Ok(Some(body))) => body,
    };
    match tokio::task::spawn_blocking(move || normalize(&body)).await {
        Ok(reply) => reply,
        Err(_) => Reply::failure(500, "internal", "the record was not decoded"),
    }
}

/// The body; `None` for one that is too large. Of such a one a little more is read and dropped, because a connection that is
/// closed before its client has sent everything may take the answer with it.
async fn collected(mut body: Incoming) -> Result<Option<Vec<u8>>, hyper::Error> {
    let mut whole = Vec::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > BODY {
            whole = Vec::new();
        } else {
            whole.extend_from_slice(&data);
        }
        if length > 2 * BODY {
            break;
        }
    }
    Ok((length <= BODY).then_some(whole))
}

impl Endpoint {
    /// Whether the request has the token; compared in constant time.
    fn admits<B>(&self, request: &Request<B>) -> bool {
        let mut values = request.headers().get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let Some((scheme, token)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
            return false;
        };
        let given: [u8; 32] = Sha256::digest(token.trim().as_bytes()).into();
        scheme.eq_ignore_ascii_case("bearer") && bool::from(given.ct_eq(&self.token))
    }
}
