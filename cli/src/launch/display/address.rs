//! Names of displays, as `DISPLAY` has them. Source: X(7), "DISPLAY NAMES"; libxcb.

use cosy_proto::x11::FIRST_PORT;
use std::path::PathBuf;

/// Folder with the sockets of displays on this host.
const SOCKETS: &str = "/tmp/.X11-unix";

/// Where a display listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DisplayPlace {
    /// At this socket on this host.
    Socket(PathBuf),
    /// At the port of its number on a host of that name.
    Host {
        /// Name or address.
        name: String,
        /// TCP port.
        port: u16,
    },
}

/// A display and one of its screens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DisplayAddress {
    /// Where it is connected to.
    pub place: DisplayPlace,
    /// Number of the display in decimal digits, as files with cookies name it.
    pub number: String,
    /// Number of the screen.
    pub screen: u32,
}

/// Reads the name of a display: `:0`, `unix:1.0`, `host:10.1`, `tcp/host:0`, `[::1]:10`, or a path of
/// a socket that ends in `:0`. `None` for what names none.
pub fn parse(text: &str) -> Option<DisplayAddress> {
    let (host, rest) = text.rsplit_once(':')?;
    let (number, screen) = rest.split_once('.').unwrap_or((rest, "0"));
    let number = decimal(number)?;
    let screen = decimal(screen)?;
    let place = match host
        .strip_prefix("tcp/")
        .or_else(|| host.strip_prefix("inet/"))
    {
        Some(name) => at_port(name, number)?,
        None if host.starts_with('/') => {
            let path = text.strip_suffix(&format!(".{screen}")).unwrap_or(text);
            DisplayPlace::Socket(path.into())
        }
        None => match host.strip_suffix("/unix").unwrap_or(host) {
            _ if host.ends_with("/unix") => on_this_host(number),
            "" | "unix" => on_this_host(number),
            name => at_port(name, number)?,
        },
    };
    Some(DisplayAddress {
        place,
        number: number.to_string(),
        screen,
    })
}

fn decimal(text: &str) -> Option<u32> {
    let fine = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fine.then(|| text.parse().ok()).flatten()
}

fn on_this_host(number: u32) -> DisplayPlace {
    DisplayPlace::Socket(format!("{SOCKETS}/X{number}").into())
}

fn at_port(name: &str, number: u32) -> Option<DisplayPlace> {
    let port = u16::try_from(number).ok()?.checked_add(FIRST_PORT)?;
    let plain = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    let name = plain.unwrap_or(name);
    (!name.is_empty()).then(|| DisplayPlace::Host {
        name: name.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_displays() {
        let check = |text: &str, place: &str, number: &str, screen: u32| {
            let got = parse(text).unwrap_or_else(|| panic!("{text}"));
            let shown = match &got.place {
                DisplayPlace::Socket(path) => path.display().to_string(),
                DisplayPlace::Host { name, port } => format!("{name} {port}"),
            };
            assert_eq!((&*shown, &*got.number, got.screen), (place, number, screen), "{text}");
        };
        check(":0", "/tmp/.X11-unix/X0", "0", 0);
        check(":1.2", "/tmp/.X11-unix/X1", "1", 2);
        check("unix:3", "/tmp/.X11-unix/X3", "3", 0);
        check("host/unix:3.1", "/tmp/.X11-unix/X3", "3", 1);
        check("localhost:10.0", "localhost 6010", "10", 0);
        check("tcp/host:0", "host 6000", "0", 0);
        check("[::1]:10.1", "::1 6010", "10", 1);
        check("/run/x/org.xquartz:0", "/run/x/org.xquartz:0", "0", 0);
        check("/run/x/org.xquartz:0.1", "/run/x/org.xquartz:0", "0", 1);
    }

    #[test]
    fn what_names_no_display() {
        for text in [
            "",
            "0",
            ":",
            ":x",
            ":0.",
            ":0.x",
            ":-1",
            "host:59536",
            "host:70000",
            "tcp/:0",
            "host:9999999999",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
