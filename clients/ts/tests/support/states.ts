// Shorthand of the tests, most of it for the auth state.

import { expect, vi } from 'vitest'
import type { SignalDataSet } from 'baileys'
import { usePannierAuthState, type AuthStateOptions, type PannierAuthState } from '../../src/baileys/index.js'
import type { PannierError } from '../../src/index.js'
import type { Pannier } from '../../src/pannier.js'
import { Attach } from '../../src/stream/attach.js'

/** What was logged and emitted. */
export interface Watched extends PannierAuthState {
  warnings: string[]
  fatal: PannierError[]
  events: string[]
}

let names = 0

/** A name that no other test has. */
export function newName(): string {
  return `bot:${process.pid}/${++names} {*} +49 é😀`
}

/** Opens, and keeps what it says. */
export async function open(pannier: Pannier, session: string, options: AuthStateOptions = {}): Promise<Watched> {
  const warnings: string[] = []
  const quiet = { warn: (_: object, message: string) => warnings.push(message), error: (_: object, message: string) => warnings.push(message) }
  const state = await usePannierAuthState(pannier, session, { logger: quiet, ...options })
  const fatal: PannierError[] = []
  const events: string[] = []
  state.on('fatal', error => fatal.push(error))
  for (const name of ['suspend', 'resume', 'conflict', 'held', 'late', 'fatal'] as const) state.on(name, () => events.push(name))
  return Object.defineProperties(state as Watched, {
    warnings: { value: warnings },
    fatal: { value: fatal },
    events: { value: events },
  })
}

/** A data set of any types. */
export function data(values: Record<string, Record<string, unknown>>): SignalDataSet {
  return values
}

/** Reads values of any type. */
export async function many(state: PannierAuthState, type: string, ids: string[]): Promise<Record<string, unknown>> {
  return state.state.keys.get(type as 'session', ids)
}

/** Reads one value of any type. */
export async function one(state: PannierAuthState, type: string, id: string): Promise<unknown> {
  return (await many(state, type, [id]))[id]
}

/** Counts messages sent on Attach streams while `work` runs. */
export async function messagesDuring(work: () => Promise<unknown>): Promise<number> {
  const spy = vi.spyOn(Attach.prototype, 'write')
  try {
    await work()
    return spy.mock.calls.length
  } finally {
    spy.mockRestore()
  }
}

/** Why a call failed, which it must. */
export const error = (work: Promise<unknown>): Promise<PannierError> => work.then(() => expect.fail('it did not fail'), (reason: PannierError) => reason)

/** Waits until it is so. */
export async function until(what: string, is: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await is())) {
    if (performance.now() > deadline) expect.fail(`not after ${ms} ms: ${what}`)
    await pause(10)
  }
}

export async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error(`took longer than ${ms} ms`)), ms)))
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

export const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))
