// Looks through a zip archive before it is stored or unpacked: it must end properly, every entry must be there, unpack and
// match its checksum, and no name may lead out of its folder.

import { createHash, type Hash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createInflateRaw } from 'node:zlib'
import yauzl, { type Entry, type ZipFile } from 'yauzl'
import { makeError, type PannierError } from '../errors.js'
import { crc32 } from './crc.js'

/** What an archive must be like, beyond being whole. */
export interface ArchiveRules {
  /** Whether an entry of this name may be there; names of folders end with `/`. Default: any. */
  allows?: (name: string) => boolean
  /** A file whose name fits must be there. */
  needs?: { what: string; test: (name: string) => boolean }
}

/** An archive that was looked through. */
export interface ArchiveReport {
  /** SHA-256 over the entries in name order: equal when the content is, whatever the times in the archive. */
  contentDigest: Buffer
  files: number
  /** Unpacked. */
  bytes: number
}

const S_IFMT = 0o170000
const S_IFREG = 0o100000
const S_IFDIR = 0o040000
const STORED = 0
const SIZES_BEHIND = 0x08
const IN_ZIP64 = 0xffffffff

/** @throws BadArchiveError */
export async function inspect(file: FileHandle, rules: ArchiveRules = {}): Promise<ArchiveReport> {
  const zip = await openZip(file)
  const entries = await listed(zip, rules)
  const digest = createHash('sha256')
  const report = { files: 0, bytes: 0 }
  for (const entry of entries) {
    digest.update(heading(entry))
    // A folder as well: what it is called must be so in both places.
    await readEntry(zip, entry, digest, () => {})
    if (isFolder(entry)) continue
    report.files++
    report.bytes += entry.uncompressedSize
  }
  return { ...report, contentDigest: digest.digest() }
}

/** Opens it through `file`, which stays the caller's to close. */
export async function openZip(file: FileHandle): Promise<ZipFile> {
  return guarded('it cannot be opened', () => yauzl.fromFdPromise(file.fd, { autoClose: false, lazyEntries: true }))
}

/** All entries in name order. */
export async function listed(zip: ZipFile, rules: ArchiveRules): Promise<Entry[]> {
  const entries = await guarded('its directory cannot be read', async () => {
    const all: Entry[] = []
    for await (const entry of zip.eachEntry()) all.push(entry)
    return all
  })
  entries.sort((a, b) => (a.fileName < b.fileName ? -1 : a.fileName > b.fileName ? 1 : 0))
  let before: string | undefined
  for (const entry of entries) {
    if (entry.fileName === before) throw badArchive('two entries have one name')
    before = entry.fileName
    check(entry, rules)
  }
  if (rules.needs && !entries.some(entry => !isFolder(entry) && rules.needs?.test(entry.fileName))) {
    throw badArchive(`it holds no ${rules.needs.what}`)
  }
  return entries
}

/** Unpacks an entry to `sink`; `raw` is told the bytes as they are in the archive. */
export async function readEntry(zip: ZipFile, entry: Entry, raw: Hash | undefined, sink: (chunk: Buffer) => void | Promise<void>): Promise<void> {
  let size = 0
  let crc = 0
  await guarded('an entry cannot be unpacked', async () => {
    const stored = await openStored(zip, entry)
    const consume = async (source: AsyncIterable<Buffer>): Promise<void> => {
      for await (const chunk of source) {
        size += chunk.length
        // Checked on the way: a small archive may claim to be small and unpack to anything.
        if (size > entry.uncompressedSize) throw badArchive('an entry is larger than the directory says')
        crc = crc32(chunk, crc)
        await sink(chunk)
      }
    }
    const heard = tapped(stored, raw)
    if (entry.compressionMethod === STORED) await pipeline(heard, consume)
    else await pipeline(heard, createInflateRaw(), consume)
  })
  if (size !== entry.uncompressedSize) throw badArchive('an entry is smaller than the directory says')
  if (crc !== entry.crc32) throw badArchive('an entry does not match its checksum')
}

/** The bytes of an entry as they are in the archive. Readers that go from the front must find what the directory at the end says. */
async function openStored(zip: ZipFile, entry: Entry): Promise<Readable> {
  const local = await zip.readLocalFileHeaderPromise(entry)
  const sizes = [[local.crc32, entry.crc32], [local.compressedSize, entry.compressedSize], [local.uncompressedSize, entry.uncompressedSize]] as const
  const isSame =
    local.fileName.equals(entry.fileNameRaw) &&
    local.compressionMethod === entry.compressionMethod &&
    // Unless they come behind the entry, or are too large for their place here.
    ((local.generalPurposeBitFlag & SIZES_BEHIND) !== 0 || sizes.every(([here, there]) => here === there || here === IN_ZIP64))
  if (!isSame) throw badArchive('an entry is not what the directory says')
  return zip.openReadStreamPromise(entry, { decodeFileData: false })
}

/** Whether an entry is a folder. */
export function isFolder(entry: Entry): boolean {
  return entry.fileName.endsWith('/')
}

/** The error for a broken archive. */
export function badArchive(why: string, cause?: unknown): PannierError {
  return makeError({ code: 'INVALID_ARGUMENT', reason: 'BAD_ARCHIVE', message: `the archive is not good: ${why}`, cause })
}

function check(entry: Entry, rules: ArchiveRules): void {
  if (entry.fileName.includes('\0')) throw badArchive('a name holds a NUL')
  if (entry.isEncrypted() || !entry.canDecodeFileData()) throw badArchive('an entry is packed in a way that RemoteAuth cannot read')
  const type = (entry.externalFileAttributes >>> 16) & S_IFMT
  if (type !== 0 && type !== S_IFREG && type !== S_IFDIR) throw badArchive('an entry is neither a file nor a folder')
  if (rules.allows && !rules.allows(entry.fileName)) throw badArchive('an entry lies outside the folders that belong to a session')
}

function heading(entry: Entry): Buffer {
  const name = Buffer.from(entry.fileName)
  const head = Buffer.alloc(4 + name.length + 16)
  head.writeUInt32BE(name.length, 0)
  name.copy(head, 4)
  head.writeBigUInt64BE(BigInt(entry.uncompressedSize), 4 + name.length)
  head.writeBigUInt64BE(BigInt(entry.compressedSize), 12 + name.length)
  return head
}

async function* tapped(source: Readable, hash: Hash | undefined): AsyncGenerator<Buffer, void, undefined> {
  for await (const chunk of source as AsyncIterable<Buffer>) {
    hash?.update(chunk)
    yield chunk
  }
}

/** Whatever a broken archive makes the library say is a bad archive; trouble with the disk is not. */
async function guarded<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    const error = cause as NodeJS.ErrnoException & { reason?: string }
    if (error.reason !== undefined || error.syscall !== undefined) throw cause
    throw badArchive(`${what} (${error.message})`, cause)
  }
}
