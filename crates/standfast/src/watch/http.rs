//! As much of HTTP/1.1 as the metadata services of clouds need: one request, one short answer, no encryption.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest answer. Those of metadata services have some kilobytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// A request.
#[derive(Debug, Clone, Copy)]
pub(super) struct HttpRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// Lines without their ends.
    pub(super) headers: &'a [&'a str],
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Sends a request, and returns the answer. Each step may take `limit`.
pub(super) fn ask(address: SocketAddr, request: HttpRequest<'_>, limit: Duration) -> io::Result<HttpAnswer> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(spelt(address, request).as_bytes())?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while answer.len() < ANSWER_BYTES_MAX {
        let length = stream.read(&mut buffer)?;
        answer.extend_from_slice(&buffer[..length]);
        match parse(&answer, length == 0) {
            Parsed::Whole(answer) => return Ok(answer),
            Parsed::Malformed => return Err(malformed()),
            Parsed::Part => {}
        }
    }
    Err(malformed())
}

fn spelt(address: SocketAddr, request: HttpRequest<'_>) -> String {
    let HttpRequest { method, path, headers } = request;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n{headers}\r\n")
}

/// What the bytes are that have come so far.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Whole(HttpAnswer),
    Part,
    Malformed,
}

/// Parses an answer, or the beginning of one. `is_end`: nothing more comes.
fn parse(answer: &[u8], is_end: bool) -> Parsed {
    let part = if is_end { Parsed::Malformed } else { Parsed::Part };
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return part };
    let (head, body) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
    let mut words = head.lines().next().unwrap_or_default().split_ascii_whitespace();
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let Some(status) = words.next().and_then(|word| word.parse().ok()).filter(|_| is_http) else {
        return Parsed::Malformed;
    };
    let header = |wanted: &str| {
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let body = match (header("Transfer-Encoding"), header("Content-Length")) {
        (Some(encoding), _) if encoding.eq_ignore_ascii_case("chunked") => dechunked(body),
        (_, Some(length)) => match length.parse::<usize>() {
            Ok(length) => body.get(..length).map(<[u8]>::to_vec),
            Err(_) => return Parsed::Malformed,
        },
        (_, None) => is_end.then(|| body.to_vec()),
    };
    match body {
        Some(body) => Parsed::Whole(HttpAnswer { status, body: String::from_utf8_lossy(&body).into_owned() }),
        None => part,
    }
}

/// Joins the chunks of a body; `None` if there is no last one.
fn dechunked(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|two| two == b"\r\n")?;
        let length = std::str::from_utf8(&chunks[..end]).ok()?.split(';').next()?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        let begin = end + 2;
        body.extend_from_slice(chunks.get(begin..begin.checked_add(length)?)?);
        chunks = chunks.get(begin + length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(status: u16, body: &str) -> Parsed {
        Parsed::Whole(HttpAnswer { status, body: body.to_owned() })
    }

    #[test]
    fn an_answer_ends_with_its_length_its_last_chunk_or_the_connection() {
        let counted = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nTRUE and more";
        assert_eq!(parse(counted, false), whole(200, "TRUE"));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nTR\r\n2;x=y\r\nUE\r\n0\r\n\r\n";
        assert_eq!(parse(chunked, false), whole(200, "TRUE"));
        assert_eq!(parse(&chunked[..chunked.len() - 6], false), Parsed::Part);
        let open = b"HTTP/1.0 404 Not Found\r\n\r\nnothing";
        assert_eq!((parse(open, false), parse(open, true)), (Parsed::Part, whole(404, "nothing")));
    }

    #[test]
    fn noise_is_not_an_answer() {
        for noise in [&b""[..], b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1234"] {
            assert_eq!((parse(noise, false), parse(noise, true)), (Parsed::Part, Parsed::Malformed), "{noise:?}");
        }
        for noise in [&b"\r\n\r\n"[..], b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 many\r\n\r\n", b"\xff\r\n\r\n"] {
            assert_eq!(parse(noise, false), Parsed::Malformed, "{noise:?}");
        }
        let huge = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
        assert_eq!(parse(huge, false), Parsed::Part);
    }
}
