// CRC-32 as archives carry it: Node's own where there is one (20.15, 22.2 and later).

import * as zlib from 'node:zlib'
import * as library from 'buffer-crc32'

type Crc32 = (data: Uint8Array, before: number) => number

/** Of `data`, going on from `before` (0 at first). */
export const crc32: Crc32 = typeof zlib.crc32 === 'function' ? (data, before) => zlib.crc32(data, before) : portableCrc32

/** @internal The same without Node's. */
export function portableCrc32(data: Uint8Array, before: number): number {
  // The package exports a default that its types do not know.
  const { unsigned } = (library as unknown as { default: { unsigned: (data: Buffer, before: number) => number } }).default
  return unsigned(Buffer.from(data.buffer, data.byteOffset, data.byteLength), before)
}
