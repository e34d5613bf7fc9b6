//! Bytes of a local socket through a connection between daemons and back, in chunks
//! ([`cosy_proto::peer`]), until both directions have ended.

use cosy_proto::peer::CHUNK;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
const HEADER: usize = 4;
/// What may still come for a local end that has closed, in bytes: acknowledgements.
const LATE: usize = 256 << 10;

/// Carries until both directions have ended: then the connection can be used again.
///
/// # Errors
/// The connection broke, or the local end was closed while much still came for it. Then
/// the connection must not be used again.
pub async fn carry<S>(connection: &mut S, local: &mut UnixStream) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (from_peer, to_peer) = tokio::io::split(connection);
    let (from_local, to_local) = local.split();
    tokio::try_join!(outwards(from_local, to_peer), inwards(from_peer, to_local))?;
    Ok(())
}

async fn outwards(mut from: ReadHalf<'_>, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut piece = vec![0; HEADER + PIECE];
    loop {
        // A local end that was reset has ended.
        let count = from.read(&mut piece[HEADER..]).await.unwrap_or(0);
        piece[..HEADER].copy_from_slice(&(count as u32).to_le_bytes());
        to.write_all(&piece[..HEADER + count]).await?;
        to.flush().await?;
        if count == 0 {
            return Ok(());
        }
    }
}

async fn inwards(mut from: impl AsyncRead + Unpin, mut to: WriteHalf<'_>) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut late = None;
    loop {
        let mut header = [0; HEADER];
        from.read_exact(&mut header).await?;
        let mut left = u32::from_le_bytes(header) as usize;
        if left > CHUNK {
            let text = format!("a chunk of {left} bytes is longer than {CHUNK}");
            return Err(io::Error::other(text));
        }
        if left == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        while left > 0 {
            let count = left.min(PIECE);
            from.read_exact(&mut piece[..count]).await?;
            left -= count;
            hand_over(&mut to, &piece[..count], &mut late).await?;
        }
    }
}

/// Gives bytes to the local end; to one that has closed only a little is lost.
async fn hand_over(
    to: &mut WriteHalf<'_>,
    bytes: &[u8],
    late: &mut Option<usize>,
) -> io::Result<()> {
    if late.is_none() {
        match to.write_all(bytes).await {
            Ok(()) => return Ok(()),
            Err(_) => *late = Some(0),
        }
    }
    let lost = late.unwrap_or(0).saturating_add(bytes.len());
    *late = Some(lost);
    match lost > LATE {
        true => Err(io::ErrorKind::BrokenPipe.into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(test: impl std::future::Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test);
    }

    #[test]
    fn both_directions_and_their_ends() {
        run(async {
            let (mut left, mut right) = tokio::io::duplex(1000);
            let (mut a, mut a_end) = UnixStream::pair().unwrap();
            let (mut b, mut b_end) = UnixStream::pair().unwrap();
            let carried = async {
                let there = carry(&mut left, &mut a_end);
                let here = carry(&mut right, &mut b_end);
                tokio::try_join!(there, here).unwrap();
            };
            let sent: Vec<u8> = (0..300_000).map(|n| n as u8).collect();
            let talk = async {
                let writing = async {
                    a.write_all(&sent).await.unwrap();
                    a.shutdown().await.unwrap();
                };
                let mut got = Vec::new();
                let (_, n) = tokio::join!(writing, b.read_to_end(&mut got));
                n.unwrap();
                assert!(got == sent);
                b.write_all(b"back").await.unwrap();
                b.shutdown().await.unwrap();
                let mut back = String::new();
                a.read_to_string(&mut back).await.unwrap();
                assert_eq!(back, "back");
            };
            tokio::join!(carried, talk);
            // Nothing is left over: the next conversation begins with what comes next.
            left.write_all(b"next").await.unwrap();
            let mut next = [0; 4];
            right.read_exact(&mut next).await.unwrap();
            assert_eq!(&next, b"next");
        });
    }

    #[test]
    fn hostile_chunks_end_it() {
        run(async {
            let (mut left, mut right) = tokio::io::duplex(1000);
            let (_a, mut a_end) = UnixStream::pair().unwrap();
            right.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
            let error = carry(&mut left, &mut a_end).await.unwrap_err();
            assert!(error.to_string().contains("longer than"), "{error}");
        });
    }
}
