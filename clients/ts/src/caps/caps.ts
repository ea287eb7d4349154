// How much may be sent. A send is counted against one or several policies, all or nothing, and once however often it is tried.

import { randomUUID } from 'node:crypto'
import type { Connection } from '../connection.js'
import { CapServiceService as Service } from '../gen/pannier/v1/cap.js'
import { span, textBytes, WORK_MS } from '../limits.js'
import { checkKnown, type Duration } from '../options.js'
import { present } from '../pipe/answers.js'
import type { Pipe } from '../pipe/pipe.js'
import { CONFIRM, CONSUME, encodeConsume, encodeInbound, encodePeek, encodeSend, NOTE_INBOUND, PEEK, REFUND } from './codec.js'
import { fromWire, toWire, type CapPolicy, type StoredPolicy } from './policy.js'
import type { ConfirmResult, ConsumeResult, PeekResult, RefundResult, Subject } from './results.js'

/** How to consume. */
export interface ConsumeOptions {
  /**
   * Names the send over all its tries: the id of the outgoing message or job, 1..512 bytes. The same one is counted once. Remembered
   * for 48 h, or the longest window of its policies where that is longer, but for 8 days at most.
   */
  sendId: string
  /** How much it counts: 1..1 000 000 000. Default 1. A `unique` policy counts recipients, whatever `n` is. */
  n?: number
  /** Count it only until then, unless `confirm` comes before: 1 ms..24 h, or true for 60 s. Default: counted for good. */
  reserve?: Duration | true
  /** Of this call, retries included. Default that of `connect`. */
  timeout?: Duration
}

/**
 * Caps. Errors of every call: BadRequestError, NotFoundError (no policy of that name), UnavailableError (Valkey is away and not
 * every policy is `failOpen`), DeadlineExceededError, ExhaustedError.
 */
export class Caps {
  readonly #pipe: Pipe
  readonly #connection: Connection
  readonly #namespace: string

  /** @internal */
  constructor(pipe: Pipe, connection: Connection, namespace: string) {
    this.#pipe = pipe
    this.#connection = connection
    this.#namespace = namespace
  }

  /**
   * Asks for leave to send, and counts it when it is given. `policies`: 1..8 names, none twice; all are checked, then all counted, in
   * one step. A denial uses nothing up.
   */
  async consume(subject: Subject, policies: string | readonly string[], options: ConsumeOptions): Promise<ConsumeResult> {
    checkSubject('consume', subject)
    checkKnown('consume', options, ['sendId', 'n', 'reserve', 'timeout'])
    const { sendId, n, reserve } = options
    const reserveMs = reserve === true ? 0 : span('reserve_ttl', reserve, WORK_MS)
    const body = encodeConsume(this.#namespace, subject, list(policies), sendId, n, reserveMs)
    return this.#pipe.call(CONSUME, body, this.#pipe.timeout('consume', options.timeout))
  }

  /** Makes a reservation final. */
  async confirm(sendId: string, options: { timeout?: Duration } = {}): Promise<ConfirmResult> {
    checkKnown('confirm', options, ['timeout'])
    return this.#pipe.call(CONFIRM, encodeSend(this.#namespace, sendId), this.#pipe.timeout('confirm', options.timeout))
  }

  /** Gives back exactly what a send took, once: as far as its window still holds it. The sendId is free then. */
  async refund(sendId: string, options: { timeout?: Duration } = {}): Promise<RefundResult> {
    checkKnown('refund', options, ['timeout'])
    return this.#pipe.call(REFUND, encodeSend(this.#namespace, sendId), this.#pipe.timeout('refund', options.timeout))
  }

  /** What `consume` would find; writes nothing. `unit`: also when the unit-th single send from now could go (1..1 000 000). */
  async peek(subject: Subject, policies: string | readonly string[], options: { n?: number; unit?: number; timeout?: Duration } = {}): Promise<PeekResult> {
    checkSubject('peek', subject)
    checkKnown('peek', options, ['n', 'unit', 'timeout'])
    const body = encodePeek(this.#namespace, subject, list(policies), options.n, options.unit)
    return this.#pipe.call(PEEK, body, this.#pipe.timeout('peek', options.timeout))
  }

  /**
   * A message came in from this recipient: for 24 h from now, sends to it are answers and count for no `unique` policy. `sender`: to
   * which number, if `consume` names senders; the window holds for sends that name the same one. Gives until when it is open.
   */
  async noteInbound(recipient: string, options: { sender?: string; timeout?: Duration } = {}): Promise<Date> {
    checkKnown('noteInbound', options, ['sender', 'timeout'])
    return this.#pipe.call(NOTE_INBOUND, encodeInbound(this.#namespace, recipient, options.sender), this.#pipe.timeout('noteInbound', options.timeout))
  }

  /**
   * Makes a policy or changes it; holds at once for every sidecar. A new limit keeps what was counted; another algorithm, window,
   * period, time zone or scope begins anew. At most 1 000 a namespace (ExhaustedError).
   */
  async setPolicy(policy: CapPolicy): Promise<{ policy: StoredPolicy; created: boolean }> {
    const request = { namespace: this.#namespace, requestId: randomUUID(), policy: toWire(policy) }
    const answer = await this.#connection.unary(Service.setPolicy, request, this.#pipe.timeoutMs)
    return { policy: fromWire(present(answer.policy, 'policy')), created: answer.created }
  }

  /** Reads a policy. @throws NotFoundError */
  async getPolicy(name: string): Promise<StoredPolicy> {
    textBytes('name', name, 128)
    const answer = await this.#connection.unary(Service.getPolicy, { namespace: this.#namespace, name }, this.#pipe.timeoutMs)
    return fromWire(present(answer.policy, 'policy'))
  }

  /** The policies of the namespace, by name. `corrupt`: how many more there are that could not be opened. */
  async listPolicies(): Promise<{ policies: StoredPolicy[]; corrupt: number }> {
    const answer = await this.#connection.unary(Service.listPolicies, { namespace: this.#namespace }, this.#pipe.timeoutMs)
    return { policies: answer.policies.map(fromWire), corrupt: answer.corrupt }
  }

  /** Takes a policy away; false if there was none, or not of that `revision`. Its counters run out by themselves. */
  async deletePolicy(name: string, options: { revision?: number } = {}): Promise<boolean> {
    checkKnown('deletePolicy', options, ['revision'])
    textBytes('name', name, 128)
    const request = { namespace: this.#namespace, name, revision: BigInt(options.revision ?? 0) }
    return (await this.#connection.unary(Service.deletePolicy, request, this.#pipe.timeoutMs)).deleted
  }
}

function list(policies: string | readonly string[]): readonly string[] {
  return typeof policies === 'string' ? [policies] : policies
}

function checkSubject(where: string, subject: Subject): void {
  checkKnown(`${where}: subject`, subject, ['recipient', 'sender'])
}
