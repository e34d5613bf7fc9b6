//! An X client for tests: it reads `DISPLAY` and `XAUTHORITY`, shows its cookie, and sends bytes that
//! the display of the test sends back.
//!
//! `cosy-x-client BYTES [--clients N] [--no-cookie] [--until FILE]`: so many bytes in each of N
//! connections at once, and then all stay open until the file is there. Says `N clients: BYTES bytes
//! each`, or how it was refused.

use anyhow::{Context as _, anyhow, bail};
use cosy_proto::x11::authority::{self, DisplayName};
use cosy_proto::x11::{FIRST_PORT, MAGIC_COOKIE};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Bytes that are written at once; no divisor of the windows on the way.
const PIECE: usize = 10_007;

struct Arguments {
    bytes: usize,
    clients: usize,
    cookie: bool,
    until: Option<String>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut words = std::env::args().skip(1);
    let bytes = words.next().context("how many bytes?")?.parse()?;
    let mut all = Arguments {
        bytes,
        clients: 1,
        cookie: true,
        until: None,
    };
    while let Some(word) = words.next() {
        match &*word {
            "--no-cookie" => all.cookie = false,
            "--clients" => all.clients = words.next().context("how many clients?")?.parse()?,
            "--until" => all.until = words.next(),
            _ => bail!("{word} is not known"),
        }
    }
    Ok(all)
}

fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let (port, cookie) = display()?;
    let cookie = if arguments.cookie {
        cookie
    } else {
        vec![0; 16]
    };
    let clients: Vec<_> = (0..arguments.clients)
        .map(|number| {
            let (cookie, bytes) = (cookie.clone(), arguments.bytes);
            std::thread::spawn(move || client(port, &cookie, bytes, number))
        })
        .collect();
    let mut open = Vec::new();
    for client in clients {
        open.push(client.join().map_err(|_| anyhow!("a client panicked"))??);
    }
    println!("{} clients: {} bytes each", open.len(), arguments.bytes);
    while arguments
        .until
        .as_ref()
        .is_some_and(|file| !Path::new(file).exists())
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Port and cookie of the display that this environment names.
fn display() -> anyhow::Result<(u16, Vec<u8>)> {
    let name = std::env::var("DISPLAY").context("DISPLAY")?;
    let number = name
        .strip_prefix("localhost:")
        .and_then(|rest| rest.strip_suffix(".0"));
    let number = number.with_context(|| format!("DISPLAY is {name}"))?;
    let file = std::env::var("XAUTHORITY").context("XAUTHORITY")?;
    let bytes = std::fs::read(&file).with_context(|| file.clone())?;
    let asked = DisplayName {
        family: authority::LOCAL,
        address: nix::unistd::gethostname()?.into_encoded_bytes(),
        number: number.into(),
    };
    let cookie = authority::cookie(&bytes, &asked).context("no cookie for this display")?;
    Ok((FIRST_PORT + number.parse::<u16>()?, cookie))
}

fn client(port: u16, cookie: &[u8], bytes: usize, number: usize) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("cannot connect")?;
    let mut words = vec![b'l', 0, 11, 0, 0, 0];
    words.extend(u16::try_from(MAGIC_COOKIE.len())?.to_le_bytes());
    words.extend(u16::try_from(cookie.len())?.to_le_bytes());
    words.extend([0; 2]);
    words.extend(MAGIC_COOKIE);
    words.extend([0; 2]);
    words.extend(cookie);
    stream.write_all(&words)?;
    let mut answer = [0; 8];
    stream
        .read_exact(&mut answer)
        .context("refused without a word")?;
    if answer[0] != 1 {
        let mut reason = vec![0; answer[1].into()];
        stream.read_exact(&mut reason)?;
        bail!("refused: {}", String::from_utf8_lossy(&reason));
    }
    let mut writer = stream.try_clone()?;
    let writing = std::thread::spawn(move || -> std::io::Result<()> {
        let all = pattern(number, bytes);
        all.chunks(PIECE)
            .try_for_each(|piece| writer.write_all(piece))
    });
    let mut back = vec![0; bytes];
    stream
        .read_exact(&mut back)
        .context("the display sends less back")?;
    writing
        .join()
        .map_err(|_| anyhow!("the writer panicked"))??;
    if back != pattern(number, bytes) {
        bail!("what comes back is not what was sent");
    }
    Ok(stream)
}

/// Bytes that differ between clients, and nowhere repeat themselves soon.
fn pattern(number: usize, bytes: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}
