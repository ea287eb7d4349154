// What a request may hold, judged here as the sidecar judges it: the same error, without the way there.

import { badField, tooLarge } from './errors.js'
import { inMilliseconds, type Duration } from './options.js'

/** 24 hours. */
export const DAY_MS = 86_400_000
/** The longest of most durations: 400 days. */
export const LONGEST_MS = 400 * DAY_MS
/** The longest time for work on a claim, or of a reservation. */
export const WORK_MS = DAY_MS
/** The last millisecond of the year 9999, from 1970. */
export const LATEST_MS = 253_402_300_799_999

/** A text of 1..`most` bytes of UTF-8: how many it has. @throws BadRequestError */
export function textBytes(field: string, value: string, most = 512): number {
  if (typeof value !== 'string') throw badField(field, 'must be a text')
  const bytes = Buffer.byteLength(value)
  if (bytes === 0) throw badField(field, `must not be empty (1..${most} bytes)`)
  if (bytes > most) throw badField(field, `must be at most ${most} bytes`)
  // Half a surrogate pair has no UTF-8: two different texts would come out as the same.
  if (bytes !== value.length && !isWellFormed(value)) throw badField(field, 'must be well-formed Unicode')
  return bytes
}

/** Whole milliseconds of a duration; undefined stays so. @throws BadRequestError */
export function span(field: string, value: Duration | undefined, most = LONGEST_MS): number | undefined {
  if (value === undefined) return undefined
  const ms = inMilliseconds(value)
  if (Number.isInteger(ms) && ms >= 1 && ms <= most) return ms
  throw badField(field, `must be whole milliseconds, or a text such as '20s': 1 ms..${most === WORK_MS ? '24 h' : '400 days'}`)
}

/** A whole number. @throws BadRequestError */
export function count(field: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value
  throw badField(field, `must be a whole number of ${least}..${most}`)
}

/** How many there are in a batch: 1..`most`. @throws BadRequestError, TooLargeError */
export function batchSize(field: string, length: number, most: number): void {
  if (length === 0) throw badField(field, `must not be empty (1..${most})`)
  if (length > most) throw tooLarge(field, `must be at most ${most}`)
}

/** A word's number on the wire: `words` begins with number 1. @throws BadRequestError */
export function numberOf<Word extends string>(field: string, words: readonly Word[], word: Word): number {
  const number = words.indexOf(word) + 1
  if (number === 0) throw badField(field, `must be one of ${words.join(', ')}`)
  return number
}

/** It has a UTF-8. (String.isWellFormed, which this TypeScript does not know yet.) */
export function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed()
}
