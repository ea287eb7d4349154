// google.protobuf.Duration, as the generated code has it.

import type { Duration } from './gen/google/protobuf/duration.js'

/** A duration as the wire has it; undefined stays so. */
export function toDuration(ms: number): Duration
export function toDuration(ms: number | undefined): Duration | undefined
export function toDuration(ms: number | undefined): Duration | undefined {
  if (ms === undefined) return undefined
  const seconds = Math.floor(ms / 1000)
  return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) }
}

/** Milliseconds of a wire duration; undefined stays so. */
export function fromDuration(value: Duration | undefined): number | undefined {
  return value && Number(value.seconds) * 1000 + value.nanos / 1e6
}
