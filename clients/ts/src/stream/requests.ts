// What is asked on a stream, from the call to its answer.

import type { PannierError } from '../errors.js'
import type { AttachRequest } from '../gen/pannier/v1/session.js'
import type { CommittedAnswer, RecordsAnswer, StoredFragment, StoredRecord } from './answer-codec.js'
import type { CommitBody } from './commit-codec.js'
import type { Queued } from './commit-queue.js'

/** What every request has. Times are of performance.now(). */
interface Request {
  /** On the present stream; 0 when it is not on its way. */
  seq: number
  /** Then its caller is told. */
  deadline: number
  /** Then the stream counts as dead, if there was no answer. */
  answerBy: number
  timeoutMs: number
  reject: (error: PannierError) => void
  /** Why the last try failed. */
  last: PannierError | undefined
}

/** Get or List. */
export interface ReadRequest extends Request {
  kind: 'read'
  op: NonNullable<AttachRequest['op']>
  /** What came so far. */
  records: Gathered
  resolve: (result: ReadResult) => void
  /** Not before this, after a failure. */
  notBefore: number
  attempt: number
}

/** Commit or Clear. */
export interface WriteRequest extends Request, Queued {
  kind: 'write'
  /** Absent: Clear. */
  body: CommitBody | undefined
  size: number
  resolve: (result: CommittedAnswer) => void
  cleared: ((result: ClearedResult) => void) | undefined
}

/** What a read gives. */
export interface ReadResult {
  records: StoredRecord[]
  /** The session's revision at the snapshot, of a Get. */
  revision: number
  /** Where the walk goes on; '' at its end. */
  cursor: string
  /** Records of a page that could not be opened. */
  corrupt: number
}

/** What a Clear gives. */
export interface ClearedResult {
  fence: number
  incarnation: number
  revision: number
}

/** Puts the parts of a reply together. */
export class Gathered {
  readonly records: StoredRecord[] = []
  #whole: StoredRecord | undefined
  #filled = 0

  add(part: Pick<RecordsAnswer, 'records' | 'fragments'>): void {
    for (const record of part.records) this.records.push(record)
    for (const fragment of part.fragments) this.#fragment(fragment)
  }

  /** A reply that was cut off is asked for anew. */
  reset(): void {
    this.records.length = 0
    this.#whole = undefined
  }

  #fragment(part: StoredFragment): void {
    if (part.offset === 0) {
      const { type, id, kind, revision } = part
      this.#whole = { type, id, kind, revision, value: Buffer.allocUnsafe(part.total) }
      this.#filled = 0
    }
    const whole = this.#whole
    if (whole === undefined || part.offset !== this.#filled || part.type !== whole.type || part.id !== whole.id) {
      throw new RangeError('fragments out of order')
    }
    whole.value.set(part.value, part.offset)
    this.#filled += part.value.length
    if (this.#filled === whole.value.length) {
      this.records.push(whole)
      this.#whole = undefined
    }
  }
}
