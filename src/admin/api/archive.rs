//! Archives in the format that `tar` reads (POSIX ustar), as far as a few texts need it.

use crate::clock::{Micros, Timestamp};

/// Packs texts into one archive, each under its name; `time` is the modification time of all.
pub(super) fn archive(files: &[(&str, String)], time: Timestamp) -> Vec<u8> {
    let length: usize = files.iter().map(|(_, text)| text.len() + 2 * BLOCK).sum();
    let mut archive = Vec::with_capacity(length + 2 * BLOCK);
    for (name, text) in files {
        archive.extend_from_slice(&header(name, text.len(), time));
        archive.extend_from_slice(text.as_bytes());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn header(name: &str, length: usize, time: Timestamp) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{length:011o}\0"));
    put(136, &format!("{:011o}\0", time.0 / Micros::from_secs(1).0));
    // The checksum is computed with its own field blank.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Headers and contents begin at multiples of this many bytes.
const BLOCK: usize = 512;
