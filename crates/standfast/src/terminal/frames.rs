//! Messages on the socket between an attachment and the holder: a kind, a length of two bytes, and the contents. The
//! module is pure.

/// Longest contents of a frame that either side makes or accepts.
pub(super) const CONTENTS_MAX: usize = 4096;
const HEAD: usize = 3;

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Data that was typed, or that is to be shown.
    Data(Vec<u8>),
    /// To the holder: the new size of the window, as rows, columns, width and height in pixels.
    Window([u16; 4]),
    /// From the holder: another user has attached.
    TakenOver,
    /// From the holder: no process has the terminal open any more.
    Ended,
}

/// An error: the data is not a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Senseless;

impl Frame {
    /// Appends the bytes of the message. Data of more than [`CONTENTS_MAX`] becomes several frames.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        let mut put = |kind: u8, contents: &[u8]| {
            into.push(kind);
            into.extend((contents.len() as u16).to_le_bytes());
            into.extend(contents);
        };
        match self {
            Self::Data(bytes) => bytes.chunks(CONTENTS_MAX).for_each(|piece| put(b'd', piece)),
            Self::Window(size) => put(b'w', size.map(u16::to_le_bytes).as_flattened()),
            Self::TakenOver => put(b't', &[]),
            Self::Ended => put(b'e', &[]),
        }
    }

    /// Takes the first message out of the received data; `None` if it is incomplete.
    pub(super) fn take(received: &mut Vec<u8>) -> Result<Option<Self>, Senseless> {
        let [kind, low, high, ..] = received[..] else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes([low, high]));
        if length > CONTENTS_MAX {
            return Err(Senseless);
        }
        if received.len() < HEAD + length {
            return Ok(None);
        }
        let contents: Vec<u8> = received.drain(..HEAD + length).skip(HEAD).collect();
        match (kind, contents.as_chunks()) {
            (b'd', _) => Ok(Some(Self::Data(contents))),
            (b'w', ([rows, columns, width, height], [])) => {
                Ok(Some(Self::Window([rows, columns, width, height].map(|number| u16::from_le_bytes(*number)))))
            }
            (b't', ([], [])) => Ok(Some(Self::TakenOver)),
            (b'e', ([], [])) => Ok(Some(Self::Ended)),
            _ => Err(Senseless),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_decoded_byte_by_byte() {
        let sent = [Frame::Window([1, 258, 3, 65535]), Frame::Data(vec![7; 4096]), Frame::TakenOver, Frame::Ended];
        let mut bytes = Vec::new();
        sent.iter().for_each(|frame| frame.encode(&mut bytes));
        let (mut received, mut frames) = (Vec::new(), Vec::new());
        for byte in bytes {
            received.push(byte);
            frames.extend(Frame::take(&mut received).unwrap());
        }
        assert!(received.is_empty());
        assert_eq!(frames, sent);
    }

    #[test]
    fn long_data_is_split_into_several_frames() {
        let mut bytes = Vec::new();
        Frame::Data(vec![1; CONTENTS_MAX + 1]).encode(&mut bytes);
        assert_eq!(Frame::take(&mut bytes), Ok(Some(Frame::Data(vec![1; CONTENTS_MAX]))));
        assert_eq!(Frame::take(&mut bytes), Ok(Some(Frame::Data(vec![1]))));
        assert_eq!(Frame::take(&mut bytes), Ok(None));
    }

    #[test]
    fn malformed_frames_are_refused() {
        for noise in [&b"x\0\0"[..], b"w\x01\0a", b"t\x01\0a", b"d\xff\xff"] {
            assert_eq!(Frame::take(&mut noise.to_vec()), Err(Senseless), "{noise:?}");
        }
    }
}
