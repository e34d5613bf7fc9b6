//! Programs that keep the processes of a version 2 group from opening devices. Version 2
//! has no files for that: the kernel asks a small program of ours at each opening.
//!
//! Sources: bpf(2), `Documentation/bpf/standardization/instruction-set.rst` and
//! `Documentation/admin-guide/cgroup-v2.rst` (Device controller) of the kernel.

use super::group::remove;
use crate::devices::DeviceNumber;
use crate::sys;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// One instruction: code, registers (destination in the low half), offset, constant.
const fn instruction(code: u8, registers: u8, offset: i16, constant: i32) -> u64 {
    let [o0, o1] = offset.to_le_bytes();
    let [c0, c1, c2, c3] = constant.to_le_bytes();
    u64::from_ne_bytes([code, registers, o0, o1, c0, c1, c2, c3])
}

/// Register `r` := 32 bits of what the kernel asks about (register 1), from byte `offset`.
const fn load(r: u8, offset: i16) -> u64 {
    instruction(0x61, 0x10 | r, offset, 0)
}

/// Over the next `skip` instructions unless register `r` is `value`.
const fn skip_unless(r: u8, value: u32, skip: i16) -> u64 {
    instruction(0x55, r, skip, value.cast_signed())
}

/// Register 0, the answer := `value`.
const fn answer(value: i32) -> u64 {
    instruction(0xb7, 0, 0, value)
}

/// Keeps the low 16 bits of a register.
const fn low_half(r: u8) -> u64 {
    instruction(0x57, r, 0, 0xffff)
}

const END: u64 = instruction(0x95, 0, 0, 0);

/// Answers 0 (no) for the `denied` devices, whatever is to be done with them, and 1 for
/// all others.
fn assemble(denied: &[DeviceNumber]) -> Vec<u64> {
    // The question: kind of access and of device (low half), major, minor number.
    let mut program = vec![load(2, 0), low_half(2), load(3, 4), load(4, 8)];
    for device in denied {
        let kind = if device.block { 1 } else { 2 };
        program.extend([
            skip_unless(2, kind, 4),
            skip_unless(3, device.major, 3),
            skip_unless(4, device.minor, 2),
            answer(0),
            END,
        ]);
    }
    program.extend([answer(1), END]);
    program
}

/// Keeps all processes in a group, and in those inside it, from the `denied` devices.
/// Ends with the group.
///
/// # Errors
/// The kernel takes no such programs, or not from this process.
pub(super) fn deny(group: &Path, denied: &[DeviceNumber]) -> io::Result<()> {
    let group = File::open(group)?;
    let program = sys::load_device_program(&assemble(denied))?;
    sys::attach_device_program(&group, &program)
}

/// Whether this works here: tries it on a group of its own.
pub(super) fn works(parent: &Path) -> bool {
    let probe = parent.join("probe");
    if fs::create_dir(&probe).is_err_and(|e| e.kind() != io::ErrorKind::AlreadyExists) {
        return false;
    }
    let nothing = DeviceNumber {
        block: false,
        major: 0,
        minor: 0,
    };
    let works = deny(&probe, &[nothing]).is_ok();
    remove(&probe);
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding() {
        // As bpf_asm and llvm write them.
        let check = |got: u64, want: [u8; 8]| assert_eq!(got.to_ne_bytes(), want);
        check(load(3, 4), [0x61, 0x13, 4, 0, 0, 0, 0, 0]);
        check(skip_unless(3, 195, 3), [0x55, 3, 3, 0, 195, 0, 0, 0]);
        check(low_half(2), [0x57, 2, 0, 0, 0xff, 0xff, 0, 0]);
        check(answer(1), [0xb7, 0, 0, 0, 1, 0, 0, 0]);
        check(END, [0x95, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(assemble(&[]).len(), 6);
    }
}
