// What the blob calls say, with safe integers and lower-case words.

import { GenerationState, type BlobArchive as WireArchive, type BlobInfo as WireInfo } from '../gen/pannier/v1/blob.js'
import { makeError } from '../errors.js'

/**
 * `current`: what `fetch` gives. `kept`: `rollback` can make it the current one. `deleted`: part of an archive that `restore` can
 * bring back until `goneAt`. `dropped`: has fallen out, can still be fetched by its number until about `goneAt`.
 */
export type GenerationStateName = 'current' | 'kept' | 'deleted' | 'dropped'

/** One generation of a blob. */
export interface BlobInfo {
  namespace: string
  blob: string
  /** Rising, never used twice. */
  generation: number
  /** Which life of the blob it belongs to: a new one begins with the first save, and with that after a deletion. */
  incarnation: number
  state: GenerationStateName
  /** Bytes. */
  size: number
  /** Of the whole content; 32 bytes. */
  sha256: Uint8Array
  /** As it was given with the save. */
  contentDigest: Uint8Array
  savedAt: Date | undefined
  /** As they were given with the save. */
  labels: Readonly<Record<string, string>>
  /** Bytes in Valkey. */
  storedBytes: number
  /** Of `deleted` and `dropped`. */
  goneAt: Date | undefined
}

/** A soft-deleted life of a blob. It is unlinked for good at `purgeAt`, 7 days after `deletedAt`. */
export interface BlobArchive {
  namespace: string
  blob: string
  incarnation: number
  /** The one that was the current one. */
  generation: number
  /** Its size in bytes. */
  size: number
  /** How many generations it holds. */
  generations: number
  deletedAt: Date | undefined
  purgeAt: Date | undefined
}

/** What is known of a blob. */
export interface BlobStatus {
  /** The current generation; undefined if there is no such blob. */
  blob: BlobInfo | undefined
  /** The last save or fetch that failed, for 7 days; a later success does not hide it. */
  lastError: { reason: string; message: string; at: Date | undefined } | undefined
  /** What `restore` can bring back, newest first. */
  archives: BlobArchive[]
  /** Uploads in progress, or not yet given up. */
  uploads: number
}

const STATES: Readonly<Record<number, GenerationStateName>> = {
  [GenerationState.GENERATION_STATE_CURRENT]: 'current',
  [GenerationState.GENERATION_STATE_KEPT]: 'kept',
  [GenerationState.GENERATION_STATE_DELETED]: 'deleted',
  [GenerationState.GENERATION_STATE_DROPPED]: 'dropped',
}

/** @internal */
export function toInfo(wire: WireInfo | undefined): BlobInfo {
  if (wire === undefined) throw incomplete()
  const { namespace, blob, sha256, contentDigest, savedAt, labels, goneAt } = wire
  return {
    namespace, blob, sha256, contentDigest, savedAt, labels, goneAt,
    generation: Number(wire.generation),
    incarnation: Number(wire.incarnation),
    state: STATES[wire.state] ?? 'dropped',
    size: Number(wire.size),
    storedBytes: Number(wire.storedBytes),
  }
}

/** @internal */
export function toArchive(wire: WireArchive): BlobArchive {
  const { namespace, blob, generations, deletedAt, purgeAt } = wire
  return {
    namespace, blob, generations, deletedAt, purgeAt,
    incarnation: Number(wire.incarnation),
    generation: Number(wire.generation),
    size: Number(wire.size),
  }
}

/** @internal An answer without what it is for. */
export function incomplete(): Error {
  return makeError({ code: 'INTERNAL', reason: 'INTERNAL', message: 'the sidecar gave no answer' })
}
