//! Which shared libraries a program was linked with: the `DT_NEEDED` entries of an ELF
//! file. Nothing is executed for it, unlike with `ldd`. Source: System V ABI, chapters 4
//! and 5.
//!
//! The file may be anything: every offset is checked and every table has a limit. Ours, not the
//! `object` crate, because that reads tables as long as the file says: 2 GiB of memory for a
//! sparse file whose dynamic section claims so much.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Most program headers that are looked at.
const HEADERS: u64 = 256;
/// Most entries of the dynamic section that are looked at.
const ENTRIES: u64 = 4096;
/// Longest name of a library, in bytes.
const NAME: usize = 256;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

/// Why a program's libraries cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is cut off or makes no sense.
    #[error("its ELF {0} cannot be read")]
    Broken(&'static str),
}

/// Sonames of the libraries that a program needs, in its order; none for what is no ELF
/// file (a script) or linked statically.
///
/// # Errors
/// [`ElfError`].
pub fn needed(file: &File) -> Result<Vec<String>, ElfError> {
    let Some(elf) = Elf::open(file)? else {
        return Ok(Vec::new());
    };
    let segments = elf.segments()?;
    let Some(dynamic) = segments.iter().find(|s| s.kind == PT_DYNAMIC) else {
        return Ok(Vec::new());
    };
    let entries = elf.dynamic(dynamic)?;
    let strings = entries.iter().find(|(tag, _)| *tag == DT_STRTAB);
    let Some((_, strings)) = strings else {
        return Ok(Vec::new());
    };
    let strings = in_file(&segments, *strings).ok_or(ElfError::Broken("string table"))?;
    let names = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    names.map(|(_, at)| elf.name(strings, *at)).collect()
}

/// An ELF file and how its numbers are written.
struct Elf<'a> {
    file: &'a File,
    wide: bool,
    little: bool,
}

struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

/// Where in the file an address of the program is.
fn in_file(segments: &[Segment], address: u64) -> Option<u64> {
    let loaded = segments.iter().filter(|s| s.kind == PT_LOAD);
    loaded.into_iter().find_map(|s| {
        let within = address.checked_sub(s.address)?;
        (within < s.size).then(|| s.offset.checked_add(within))?
    })
}

impl<'a> Elf<'a> {
    fn open(file: &'a File) -> Result<Option<Self>, ElfError> {
        let mut ident = [0; 16];
        match file.read_exact_at(&mut ident, 0) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let known = matches!((ident[4], ident[5]), (1 | 2, 1 | 2));
        Ok((ident.starts_with(b"\x7fELF") && known).then_some(Self {
            file,
            wide: ident[4] == 2,
            little: ident[5] == 1,
        }))
    }

    /// A number of 2, 4 or 8 bytes.
    fn number(&self, at: u64, bytes: usize, what: &'static str) -> Result<u64, ElfError> {
        let mut raw = [0; 8];
        self.file
            .read_exact_at(&mut raw[..bytes], at)
            .map_err(|_| ElfError::Broken(what))?;
        Ok(match self.little {
            true => u64::from_le_bytes(raw),
            false => u64::from_be_bytes(raw) >> (64 - 8 * bytes),
        })
    }

    /// An address or offset: 4 or 8 bytes by the file's class.
    fn word(&self, at: u64, what: &'static str) -> Result<u64, ElfError> {
        self.number(at, if self.wide { 8 } else { 4 }, what)
    }

    fn segments(&self) -> Result<Vec<Segment>, ElfError> {
        let what = "program header";
        let (table, size, count) = match self.wide {
            true => (32, 54, 56),
            false => (28, 42, 44),
        };
        let table = self.word(table, what)?;
        let size = self.number(size, 2, what)?;
        let count = self.number(count, 2, what)?.min(HEADERS);
        (0..count)
            .map(|n| {
                let at = table.checked_add(n * size).ok_or(ElfError::Broken(what))?;
                self.segment(at, what)
            })
            .collect()
    }

    fn segment(&self, at: u64, what: &'static str) -> Result<Segment, ElfError> {
        let (offset, address, size) = match self.wide {
            true => (8, 16, 32),
            false => (4, 8, 16),
        };
        let field = |o: u64| {
            let at = at.checked_add(o).ok_or(ElfError::Broken(what))?;
            self.word(at, what)
        };
        Ok(Segment {
            kind: self.number(at, 4, what)?,
            offset: field(offset)?,
            address: field(address)?,
            size: field(size)?,
        })
    }

    /// Tag and value of each entry of the dynamic section.
    fn dynamic(&self, segment: &Segment) -> Result<Vec<(u64, u64)>, ElfError> {
        let what = "dynamic section";
        let word = if self.wide { 8 } else { 4 };
        let count = (segment.size / (2 * word)).min(ENTRIES);
        let mut entries = Vec::new();
        for n in 0..count {
            let at = segment.offset.checked_add(n * 2 * word);
            let at = at.ok_or(ElfError::Broken(what))?;
            let tag = self.word(at, what)?;
            if tag == DT_NULL {
                break;
            }
            entries.push((tag, self.word(at.saturating_add(word), what)?));
        }
        Ok(entries)
    }

    fn name(&self, strings: u64, at: u64) -> Result<String, ElfError> {
        let broken = || ElfError::Broken("library name");
        let at = strings.checked_add(at).ok_or_else(broken)?;
        let mut bytes = [0; NAME];
        let length = self.file.read_at(&mut bytes, at)?;
        let end = bytes[..length].iter().position(|b| *b == 0);
        let name = &bytes[..end.ok_or_else(broken)?];
        Ok(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// A small ELF file that needs `names`, of either class and byte order.
    fn image(wide: bool, little: bool, names: &[&str]) -> Vec<u8> {
        let number = |value: u64, bytes: usize| match little {
            true => value.to_le_bytes()[..bytes].to_vec(),
            false => value.to_be_bytes()[8 - bytes..].to_vec(),
        };
        let word = if wide { 8 } else { 4 };
        let (header, entry) = if wide { (64_u64, 56_u64) } else { (52, 32) };
        let (dynamic, strings) = (header + 2 * entry, header + 2 * entry + 256);
        let base = 0x1000;
        let mut bytes = vec![0; strings as usize];
        bytes[..6].copy_from_slice(&[
            0x7f,
            b'E',
            b'L',
            b'F',
            1 + u8::from(wide),
            2 - u8::from(little),
        ]);
        let mut put = |at: u64, value: u64, size: usize| {
            bytes[at as usize..at as usize + size].copy_from_slice(&number(value, size));
        };
        put(if wide { 32 } else { 28 }, header, word);
        put(if wide { 54 } else { 42 }, entry, 2);
        put(if wide { 56 } else { 44 }, 2, 2);
        let fields = if wide { (8, 16, 32) } else { (4, 8, 16) };
        for (n, kind, offset, size) in [(0, PT_LOAD, 0, 4096), (1, PT_DYNAMIC, dynamic, 256)] {
            let at = header + n * entry;
            put(at, kind, 4);
            put(at + fields.0, offset, word);
            put(at + fields.1, base + offset, word);
            put(at + fields.2, size, word);
        }
        let mut at = dynamic;
        let mut string = 1;
        let mut text = vec![0];
        for name in names {
            put(at, DT_NEEDED, word);
            put(at + word as u64, string, word);
            at += 2 * word as u64;
            text.extend_from_slice(name.as_bytes());
            text.push(0);
            string = text.len() as u64;
        }
        put(at, DT_STRTAB, word);
        put(at + word as u64, base + strings, word);
        bytes.extend_from_slice(&text);
        bytes
    }

    #[test]
    fn both_classes_and_byte_orders() {
        let names = ["libmpi.so.40", "libc.so.6"];
        for (wide, little) in [(true, true), (true, false), (false, true), (false, false)] {
            let bytes = image(wide, little, &names);
            assert_eq!(needed(&file(&bytes)).unwrap(), names, "{wide} {little}");
        }
    }

    #[test]
    fn no_elf_needs_nothing() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0; 100]] {
            assert!(needed(&file(bytes)).unwrap().is_empty());
        }
    }

    #[test]
    fn this_program_needs_the_c_library() {
        let this = File::open(std::env::current_exe().unwrap()).unwrap();
        let names = needed(&this).unwrap();
        let static_build = cfg!(target_feature = "crt-static");
        assert!(static_build || names.iter().any(|n| n.starts_with("libc.")), "{names:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn hostile_files_give_errors(at in 4_usize..500, value: u64, cut in 0_usize..600) {
            let mut bytes = image(true, true, &["libmpi.so.40"]);
            bytes.truncate(cut.max(16));
            for (byte, new) in bytes.iter_mut().skip(at).zip(value.to_le_bytes()) {
                *byte = new;
            }
            let _ = needed(&file(&bytes));
        }
    }
}
