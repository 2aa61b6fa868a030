//! Blocks: kind, length, content, checksum. The last one has a checksum over all before it.
//!
//! A block's own checksum says early that something is wrong, and where; the last one says that
//! nothing was left out, moved or put in. Memory is taken as bytes come, never because a length
//! says so.

use std::io::{self, Read, Write};

use crc32fast::Hasher;

use super::error::SnapshotError;
use super::header::{MAGIC, VERSION};

/// What a block holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Block {
    Header = 1,
    Rule = 2,
    States = 3,
    Footer = 4,
}

/// Writes blocks.
pub(crate) struct BlockWriter<'a> {
    out: &'a mut dyn Write,
    all: Hasher,
    bytes: u64,
}

/// Reads blocks.
pub(crate) struct BlockReader<'a> {
    from: &'a mut dyn Read,
    all: Hasher,
    bytes: u64,
    content: Vec<u8>,
}

const EARLY: &str = "it ends too early";
const CHECKSUM: &str = "a checksum does not match";

impl<'a> BlockWriter<'a> {
    /// Begins a file.
    pub(crate) fn new(out: &'a mut dyn Write) -> io::Result<BlockWriter<'a>> {
        let mut writer = BlockWriter { out, all: Hasher::new(), bytes: 0 };
        writer.put(MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        Ok(writer)
    }

    pub(crate) fn block(&mut self, kind: Block, content: &[u8]) -> io::Result<()> {
        let too_long = || io::Error::other("a block of more than 4 GiB");
        let length = u32::try_from(content.len()).map_err(|_| too_long())?;
        let [a, b, c, d] = length.to_le_bytes();
        let start = [kind as u8, a, b, c, d];
        let mut own = Hasher::new();
        own.update(&start);
        own.update(content);
        self.put(&start)?;
        self.put(content)?;
        self.put(&own.finalize().to_le_bytes())
    }

    /// The checksum of all that has been written.
    pub(crate) fn sum(&self) -> u32 {
        self.all.clone().finalize()
    }

    /// How much has been written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.all.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

impl<'a> BlockReader<'a> {
    /// Begins to read; refuses what is not a snapshot, or of another version.
    pub(crate) fn new(from: &'a mut dyn Read) -> Result<BlockReader<'a>, SnapshotError> {
        let mut reader = BlockReader { from, all: Hasher::new(), bytes: 0, content: Vec::new() };
        if &reader.exactly::<8>()? != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        match u32::from_le_bytes(reader.exactly()?) {
            VERSION => Ok(reader),
            0 => Err(reader.damaged("there is no version 0")),
            version => Err(SnapshotError::Newer { version }),
        }
    }

    /// The next block, and the checksum of all that was before it.
    pub(crate) fn next(&mut self) -> Result<(Block, u32), SnapshotError> {
        let before = self.all.clone().finalize();
        let start = self.exactly::<5>()?;
        let [kind, length @ ..] = start;
        self.fill(u32::from_le_bytes(length))?;
        let mut own = Hasher::new();
        own.update(&start);
        own.update(&self.content);
        let expected = own.finalize();
        if u32::from_le_bytes(self.exactly()?) != expected {
            return Err(self.damaged(CHECKSUM));
        }
        let kinds = [Block::Header, Block::Rule, Block::States, Block::Footer];
        let kind = kinds.into_iter().find(|it| *it as u8 == kind);
        kind.map(|kind| (kind, before)).ok_or_else(|| self.damaged("a block of an unknown kind"))
    }

    /// What the last block holds.
    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }

    /// Refuses what comes after the end.
    pub(crate) fn end(&mut self) -> Result<(), SnapshotError> {
        match self.exactly::<1>() {
            Err(SnapshotError::Damaged { what: EARLY, .. }) => Ok(()),
            Ok(_) => Err(self.damaged("something follows its end")),
            Err(error) => Err(error),
        }
    }

    /// That something is wrong here.
    pub(crate) fn damaged(&self, what: &'static str) -> SnapshotError {
        SnapshotError::Damaged { at: self.bytes, what }
    }

    fn fill(&mut self, length: u32) -> Result<(), SnapshotError> {
        self.content.clear();
        let mut only = Read::take(&mut *self.from, length.into());
        let read = only.read_to_end(&mut self.content);
        let read = read.map_err(SnapshotError::Io)?;
        self.bytes += read as u64;
        self.all.update(&self.content);
        if read as u64 == u64::from(length) { Ok(()) } else { Err(self.damaged(EARLY)) }
    }

    fn exactly<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        match self.from.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(self.damaged(EARLY));
            }
            Err(error) => return Err(SnapshotError::Io(error)),
        }
        self.all.update(&bytes);
        self.bytes += N as u64;
        Ok(bytes)
    }
}
