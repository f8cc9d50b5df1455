//! The stream of what happens in all projects, line by line: how it is asked for, read, and when to ask again. What a line
//! means to whom is theirs.

use std::time::Duration;

use futures::TryStreamExt;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;

/// Where the server tells it.
const PATH: &str = "/projects/*/metadata?watch=true";
/// Before an interrupted stream is asked for again.
const RECONNECT: Duration = Duration::from_millis(500);
/// Before a server without projects is asked again.
const WITHOUT_PROJECTS: Duration = Duration::from_secs(600);
/// The longest line taken: metadata has a limit on the server, and this is far above it.
const LINE_BYTES_MAX: usize = 16 << 20;

/// How a stream ended.
pub enum Ended {
    Interrupted,
    /// The server has no projects.
    NoProjects,
    /// It never began; the place to go on from may be gone.
    Refused(StatusCode),
}

/// Why a stream could not be read on.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("a line of the stream is too long")]
    LineTooLong,
}

/// Reads the stream once, from behind `revision` where there is one, until it ends or a line is refused.
pub async fn read<E: From<Broken>>(
    client: &Client,
    revision: Option<&str>,
    mut line: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Ended, E> {
    let path = revision.map_or_else(|| PATH.to_owned(), |revision| format!("{PATH}&resourceVersion={revision}"));
    let request = Request::get(path).body(Body::empty()).map_err(|error| failed(kube::Error::HttpError(error)))?;
    let response = client.send(request).await.map_err(failed)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(Ended::NoProjects),
        status => return Ok(Ended::Refused(status)),
    }
    let mut frames = response.into_body().into_data_stream();
    let mut buffer: Vec<u8> = Vec::new();
    while let Some(frame) = frames.try_next().await.map_err(failed)? {
        buffer.extend_from_slice(&frame);
        let mut start = 0;
        while let Some(end) = buffer.iter().skip(start).position(|byte| *byte == b'\n') {
            let told = buffer.get(start..start + end).unwrap_or_default();
            start += end + 1;
            line(told)?;
        }
        buffer.drain(..start);
        if buffer.len() > LINE_BYTES_MAX {
            return Err(Broken::LineTooLong.into());
        }
    }
    Ok(Ended::Interrupted)
}

fn failed<E: From<Broken>>(error: kube::Error) -> E {
    Broken::Request(error).into()
}

/// Waits until it is time to ask again.
pub async fn rest<E: std::fmt::Display>(ended: Result<Ended, E>) {
    let wait = match ended {
        Ok(Ended::Interrupted) => RECONNECT,
        Ok(Ended::NoProjects) => WITHOUT_PROJECTS,
        Ok(Ended::Refused(status)) => {
            tracing::debug!(%status, "the stream of projects was refused");
            RECONNECT
        }
        Err(error) => {
            tracing::debug!(%error, "the stream of projects was interrupted");
            RECONNECT
        }
    };
    tokio::time::sleep(wait).await;
}
