// The content of a version: its number, and bytes that follow from it and do not pack.
import { createCipheriv } from 'node:crypto'

const SIZE = 3_000_000

/** @param {number} version */
export function versionFile(version) {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16, version % 256))
  return Buffer.concat([Buffer.from(`${version}\n`), cipher.update(Buffer.alloc(SIZE))])
}

/**
 * The version that this is; undefined if it is none.
 * @param {Buffer} content
 */
export function versionOf(content) {
  const version = Number(content.subarray(0, content.indexOf('\n')).toString())
  return Number.isInteger(version) && versionFile(version).equals(content) ? version : undefined
}
