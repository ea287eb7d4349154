// What a request may hold, judged here as the sidecar judges it: the same error, without the way there.

import { badField } from './errors.js'
import { inMilliseconds, type Duration } from './options.js'

const DAY_MS = 86_400_000
/** The longest of most durations: 400 days. */
export const LONGEST_MS = 400 * DAY_MS
/** The longest time for work on a claim, or of a reservation. */
export const WORK_MS = DAY_MS

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

/** The same, or nothing. */
export function optionalText(field: string, value: string | undefined, most = 512): number {
  return value === undefined ? 0 : textBytes(field, value, most)
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

/** It has a UTF-8. (String.isWellFormed, which this TypeScript does not know yet.) */
export function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed()
}
