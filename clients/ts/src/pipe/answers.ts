// What answers have in common: times, durations, outcomes.

import { makeError } from '../errors.js'
import type { Reader } from '../stream/wire.js'

/** A google.protobuf.Timestamp. Milliseconds: what a Date can hold. */
export function readTime(reader: Reader): Date {
  return new Date(readSpan(reader))
}

/** A google.protobuf.Duration or Timestamp, in milliseconds. */
export function readSpan(outer: Reader): number {
  const reader = outer.enter()
  let seconds = 0
  let nanos = 0
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === 0x08) seconds = reader.varint()
    else if (tag === 0x10) nanos = reader.varint()
    else reader.skip(tag)
  }
  return seconds * 1000 + nanos / 1e6
}

/** Field 1 of a message that needs no other: a number, 0 if it is not there. */
export function firstNumber(reader: Reader): number {
  let number = 0
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === 0x08) number = reader.varint()
    else reader.skip(tag)
  }
  return number
}

/** Field 1 of a message that needs no other: a message, as often as it is there. */
export function firsts<T>(reader: Reader, read: (reader: Reader) => T): T[] {
  const all: T[] = []
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === 0x0a) all.push(read(reader))
    else reader.skip(tag)
  }
  return all
}

/** The name of an outcome. `names` begins with number 1. */
export function outcome<Name extends string>(names: readonly Name[], number: number): Name {
  const name = names[number - 1]
  if (name !== undefined) return name
  throw makeError({ code: 'INTERNAL', reason: 'INTERNAL', message: `the sidecar gave outcome ${number}, which this client does not know: upgrade it` })
}

/** A field that the sidecar always sends with this outcome. */
export function present<T>(value: T | undefined, what: string): T {
  if (value !== undefined) return value
  throw makeError({ code: 'INTERNAL', reason: 'INTERNAL', message: `the sidecar's answer lacks ${what}` })
}
