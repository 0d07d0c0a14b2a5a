//! The chunked coding (RFC 9112, section 7.1): sizes, extensions and line ends around the data, byte by byte.
//!
//! Clients must follow it to the letter, because a proxy in front of the gateway may read violations differently.
//! Origins may write white space before the end of a size's line, and anything in extensions.

/// Follows a chunked body to its trailers, in whatever pieces it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    place: ChunkPlace,
    rules: ChunkRules,
    /// Bytes of extensions so far, in all chunks, and of white space before them.
    extension_bytes: u32,
}

/// How strictly what is around the data must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkRules {
    /// To the letter.
    Strict,
    /// White space may come before a line's end, and quoted strings in extensions are not checked.
    Lenient,
}

/// Where the next byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPlace {
    /// In a chunk's size, of which this many digits have come.
    Size { digits: u8, size: u64 },
    /// In white space after a chunk's size, where only an extension may follow.
    WhiteSpace { size: u64 },
    /// In a chunk's extensions.
    Extension { size: u64, quoting: Quoting },
    /// Before the line feed after a chunk's size.
    SizeEnd { size: u64 },
    /// In a chunk that has this many bytes left.
    Data(u64),
    /// Before the carriage return after a chunk.
    DataEnd,
    /// Before the line feed after a chunk.
    DataLineFeed,
    /// In the trailers, or the empty line in their place.
    Trailers,
}

/// Where a byte belongs in a chunk's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    Plain,
    Quoted,
    /// After a backslash.
    Escaped,
}

/// Why a chunked body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadChunk {
    /// A byte is where it must not be.
    Malformed,
    /// There are more than [`EXTENSION_BYTES_MAX`] bytes of extensions.
    TooLong,
}

/// Before the first digit of a chunk's size.
const SIZE: ChunkPlace = ChunkPlace::Size { digits: 0, size: 0 };

/// Most digits of a chunk's size, including leading zeros: as many as 64 bits have.
const SIZE_DIGITS_MAX: u8 = 16;

/// Most bytes of chunk extensions in one body. They are skipped, never passed on.
pub const EXTENSION_BYTES_MAX: u32 = 16 * 1024;

impl Chunks {
    /// Begins a body.
    pub const fn new(rules: ChunkRules) -> Self {
        Self {
            place: SIZE,
            rules,
            extension_bytes: 0,
        }
    }

    /// Returns how many of the next `available` bytes are a chunk's data; 0 if the next byte is not.
    pub fn data_at_hand(&self, available: usize) -> usize {
        match self.place {
            ChunkPlace::Data(left) => {
                usize::try_from(left).map_or(available, |left| left.min(available))
            }
            _ => 0,
        }
    }

    /// Takes as much of a chunk's data as there is in the next `available` bytes, and returns how much that is.
    pub fn take_data(&mut self, available: usize) -> usize {
        let taken = self.data_at_hand(available);
        if let ChunkPlace::Data(left) = &mut self.place {
            *left -= taken as u64;
            if *left == 0 {
                self.place = ChunkPlace::DataEnd;
            }
        }
        taken
    }

    /// Takes some of what is around the data, which the next byte must belong to; returns how many bytes it took.
    ///
    /// # Errors
    /// Those of [`step`](Self::step).
    pub fn take_around(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        if let Some(taken) = self.take_size(bytes) {
            return Ok(taken);
        }
        bytes
            .first()
            .map_or(Ok(0), |byte| self.step(*byte).map(|()| 1))
    }

    /// Takes all that is before a chunk's data at once, if it is all there and is nothing but digits and line ends.
    fn take_size(&mut self, bytes: &[u8]) -> Option<usize> {
        let begin = match self.place {
            ChunkPlace::DataEnd if bytes.starts_with(b"\r\n") => 2,
            SIZE => 0,
            _ => return None,
        };
        let digits = bytes[begin..].iter().map_while(|byte| hex_digit(*byte));
        let digits = digits.take(usize::from(SIZE_DIGITS_MAX));
        let (count, size) = digits.fold((0, 0), |(count, size), digit| {
            (count + 1, size << 4 | digit)
        });
        let end = begin + count;
        if size == 0 || !bytes[end..].starts_with(b"\r\n") {
            return None;
        }
        self.place = ChunkPlace::Data(size);
        Some(end + 2)
    }

    /// Takes one byte of what is around the data.
    ///
    /// # Errors
    /// If the byte must not be there: the body's end cannot be found, so its connection is not used again.
    fn step(&mut self, byte: u8) -> Result<(), BadChunk> {
        self.place = match (self.place, byte) {
            (ChunkPlace::Size { digits, size }, _) if let Some(digit) = hex_digit(byte) => {
                if digits == SIZE_DIGITS_MAX {
                    return Err(BadChunk::Malformed);
                }
                ChunkPlace::Size {
                    digits: digits + 1,
                    size: size << 4 | digit,
                }
            }
            (
                ChunkPlace::Size { digits: 1.., size }
                | ChunkPlace::Extension {
                    size,
                    quoting: Quoting::Plain,
                },
                b'\r',
            ) => ChunkPlace::SizeEnd { size },
            (ChunkPlace::WhiteSpace { size }, b'\r') if self.rules == ChunkRules::Lenient => {
                ChunkPlace::SizeEnd { size }
            }
            (ChunkPlace::Size { digits: 1.., size } | ChunkPlace::WhiteSpace { size }, b';') => {
                self.extension(size, Quoting::Plain)?
            }
            (
                ChunkPlace::Size { digits: 1.., size } | ChunkPlace::WhiteSpace { size },
                b' ' | b'\t',
            ) => {
                self.count_extension()?;
                ChunkPlace::WhiteSpace { size }
            }
            (ChunkPlace::Extension { size, quoting }, b'\t' | b' '..=b'~' | 0x80..) => {
                let is_strict = self.rules == ChunkRules::Strict;
                self.extension(
                    size,
                    if is_strict {
                        quoting.after(byte)
                    } else {
                        quoting
                    },
                )?
            }
            (ChunkPlace::SizeEnd { size: 0 }, b'\n') => ChunkPlace::Trailers,
            (ChunkPlace::SizeEnd { size }, b'\n') => ChunkPlace::Data(size),
            (ChunkPlace::DataEnd, b'\r') => ChunkPlace::DataLineFeed,
            (ChunkPlace::DataLineFeed, b'\n') => SIZE,
            _ => return Err(BadChunk::Malformed),
        };
        Ok(())
    }

    /// Whether the next byte belongs to a chunk's extensions.
    pub fn is_in_extension(&self) -> bool {
        matches!(self.place, ChunkPlace::Extension { .. })
    }

    /// Whether the next byte belongs to the trailers, or the empty line in their place.
    pub fn is_at_trailers(&self) -> bool {
        self.place == ChunkPlace::Trailers
    }

    fn extension(&mut self, size: u64, quoting: Quoting) -> Result<ChunkPlace, BadChunk> {
        self.count_extension()?;
        Ok(ChunkPlace::Extension { size, quoting })
    }

    /// Counts a byte of extensions, or of the white space before them.
    fn count_extension(&mut self) -> Result<(), BadChunk> {
        self.extension_bytes += 1;
        let fits = self.extension_bytes <= EXTENSION_BYTES_MAX;
        fits.then_some(()).ok_or(BadChunk::TooLong)
    }
}

fn hex_digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

impl Quoting {
    /// Returns where the byte after this one belongs.
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Plain, b'"') | (Self::Escaped, _) => Self::Quoted,
            (Self::Quoted, b'"') => Self::Plain,
            (Self::Quoted, b'\\') => Self::Escaped,
            _ => self,
        }
    }
}
