//! How a connection begins: both ends prove that they know the job's secret, and whoever has connected says what for.
//!
//! ```text
//!  Hello(nonce)                  ->
//!                                <- Challenge(another nonce, proof of both)
//!  Wish(purpose, proof of both and the purpose) ->
//! ```
//! The proofs of the two ends differ, so that none can be sent back to where it came from.

use crate::error::system;
use crate::message::{Purpose, RemoteMessage};
use crate::secret::random;
use crate::{RemoteError, Secret};
use std::net::TcpStream;
use std::time::Duration;

/// How long an end waits for a message of the greeting.
const PATIENCE: Duration = Duration::from_secs(10);
const OF_SERVER: &[u8] = b"server";
const OF_CLIENT: &[u8] = b"client";

/// Greets whoever has accepted a connection, and says what it is for.
///
/// # Errors
/// When the other end cannot prove that it belongs to the job.
pub(crate) fn greet(stream: &mut TcpStream, secret: &Secret, purpose: &Purpose) -> Result<(), RemoteError> {
    prepare(stream, Some(PATIENCE))?;
    let own = random()?;
    RemoteMessage::Hello { nonce: own }.send(stream)?;
    let RemoteMessage::Challenge { nonce, proof } = RemoteMessage::receive(stream)? else {
        return Err(RemoteError::Stranger("it did not answer the greeting"));
    };
    if !secret.proves(proof, &[OF_SERVER, &own, &nonce]) {
        return Err(RemoteError::Stranger("it does not know the job's secret"));
    }
    let purpose = minicbor::to_vec(purpose).expect("a purpose can be encoded");
    let proof = secret.proof(&[OF_CLIENT, &own, &nonce, &purpose]);
    RemoteMessage::Wish { purpose, proof }.send(stream)?;
    prepare(stream, None)
}

/// Answers the greeting of whoever has connected, and returns what the connection is for.
///
/// # Errors
/// When the other end cannot prove that it belongs to the job.
pub(crate) fn answer(stream: &mut TcpStream, secret: &Secret) -> Result<Purpose, RemoteError> {
    prepare(stream, Some(PATIENCE))?;
    let RemoteMessage::Hello { nonce } = RemoteMessage::receive(stream)? else {
        return Err(RemoteError::Stranger("it did not greet"));
    };
    let own = random()?;
    RemoteMessage::Challenge { nonce: own, proof: secret.proof(&[OF_SERVER, &nonce, &own]) }.send(stream)?;
    let RemoteMessage::Wish { purpose, proof } = RemoteMessage::receive(stream)? else {
        return Err(RemoteError::Stranger("it did not say what for"));
    };
    if !secret.proves(proof, &[OF_CLIENT, &nonce, &own, &purpose]) {
        return Err(RemoteError::Stranger("it does not know the job's secret"));
    }
    prepare(stream, None)?;
    minicbor::decode(&purpose).map_err(|_| RemoteError::Stranger("its purpose is unknown"))
}

/// Reports whether whoever has connected has gone again without a word, as one does who only tries whether this port can be
/// reached.
///
/// # Errors
/// When nothing happens for long.
pub(crate) fn was_only_tried(stream: &TcpStream) -> Result<bool, RemoteError> {
    prepare(stream, Some(PATIENCE))?;
    Ok(stream.peek(&mut [0]).map_err(system("waiting for a greeting"))? == 0)
}

fn prepare(stream: &TcpStream, patience: Option<Duration>) -> Result<(), RemoteError> {
    let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(patience));
    set.and_then(|()| stream.set_write_timeout(patience)).map_err(system("setting up a connection"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Has two ends with these secrets greet each other; returns what each says.
    fn met(client: &Secret, server: &Secret) -> (Result<(), RemoteError>, Result<Purpose, RemoteError>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let greeted = scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                greet(&mut stream, client, &Purpose::Command { line: b"true".to_vec() })
            });
            let answered = answer(&mut listener.accept().unwrap().0, server);
            (greeted.join().unwrap(), answered)
        })
    }

    #[test]
    fn ends_of_one_job_meet() {
        let secret = Secret::random().unwrap();
        let (greeted, answered) = met(&secret, &secret);
        greeted.unwrap();
        assert_eq!(answered.unwrap(), Purpose::Command { line: b"true".to_vec() });
    }

    #[test]
    fn ends_of_different_jobs_part() {
        let (greeted, answered) = met(&Secret::random().unwrap(), &Secret::random().unwrap());
        assert!(matches!(greeted, Err(RemoteError::Stranger(_))), "{greeted:?}");
        assert!(matches!(answered, Err(RemoteError::Lost)), "{answered:?}");
    }

    #[test]
    fn whoever_says_nothing_has_only_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for says_something in [false, true] {
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            if says_something {
                RemoteMessage::Hello { nonce: [0; 32] }.send(&mut stream).unwrap();
            }
            drop(stream);
            assert_eq!(was_only_tried(&listener.accept().unwrap().0).unwrap(), !says_something);
        }
    }

    #[test]
    fn a_wish_without_the_secret_is_refused() {
        let secret = Secret::random().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut accepted = listener.accept().unwrap().0;
        RemoteMessage::Hello { nonce: [0; 32] }.send(&mut stranger).unwrap();
        let purpose = minicbor::to_vec(Purpose::Command { line: Vec::new() }).unwrap();
        RemoteMessage::Wish { purpose, proof: [0; 32] }.send(&mut stranger).unwrap();
        assert!(matches!(answer(&mut accepted, &secret), Err(RemoteError::Stranger(_))));
    }
}
