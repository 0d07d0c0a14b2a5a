//! Joins small pieces that are to be written together.
//!
//! For a head and a short body, a `writev` of the two costs the kernel more than it costs to copy them together and
//! `send` the copy.

use std::io::IoSlice;

use smallvec::SmallVec;

/// Pieces that have been copied together, to be written as one.
pub(super) type Gathered = SmallVec<[u8; GATHERED_BYTES_MAX]>;

/// Returns the pieces as one, copied into `room` if there are several; `None` if that is too much to copy.
pub(super) fn gather<'b>(slices: &'b [IoSlice<'_>], room: &'b mut Gathered) -> Option<&'b [u8]> {
    if let [only] = slices {
        return Some(only);
    }
    let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
    if bytes > GATHERED_BYTES_MAX {
        return None;
    }
    for slice in slices {
        room.extend_from_slice(slice);
    }
    Some(room)
}

/// Most bytes that are copied.
const GATHERED_BYTES_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(pieces: &[&[u8]]) -> Option<Vec<u8>> {
        let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        gather(&slices, &mut Gathered::new()).map(<[u8]>::to_vec)
    }

    #[test]
    fn pieces_become_one_in_order_unless_they_are_much_to_copy() {
        let long = [b'x'; GATHERED_BYTES_MAX];
        assert_eq!(gathered(&[b"head", b"", b"body"]), Some(b"headbody".into()));
        assert_eq!(gathered(&[&long[1..], b"x"]), Some(long.into()));
        assert_eq!(gathered(&[&long, b"x"]), None);
        let longer = [long, long].concat();
        assert_eq!(gathered(&[&longer]), Some(longer));
    }
}
