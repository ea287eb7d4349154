// One table of scenarios, run over every client: the same calls have the same outcomes. See tests/parity/README.md.

import { isDeepStrictEqual } from 'node:util'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { PannierError } from '../src/index.js'
import { CALLS, type Given } from './support/parity-calls.js'
import { newName, pause } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

interface Step {
  call: string
  with?: Given
  gives?: unknown
  error?: { reason: string; field?: string }
  as?: string
  not_in?: string[]
}

interface Scenario {
  name: string
  steps: (Step | { wait_ms: number })[]
}

const TABLE = (JSON.parse(readFileSync(new URL('../../../tests/parity/scenarios.json', import.meta.url), 'utf8')) as { scenarios: Scenario[] }).scenarios
const STEP = ['call', 'with', 'gives', 'error', 'as', 'not_in']
/** What is the caller's own, to the letter. */
const OPAQUE = new Set(['fields', 'payload', 'result', 'labels'])
const HEX = new Set(['sha256', 'contentDigest'])
/** Whose texts are words of TypeScript's. */
const WORDS = new Set(['outcome', 'deadReason', 'misfire'])

let sidecar: Sidecar
sidecarForAll(place => ({ sidecar } = place))
const ran = new Set<string>()

for (const scenario of TABLE) {
  test(scenario.name, async () => {
    await play(scenario)
    ran.add(scenario.name)
  })
}

test('every scenario was run', () => {
  expect([...ran].sort()).toEqual(TABLE.map(({ name }) => name).sort())
  expect(ran.size).toBeGreaterThan(0)
})

async function play({ name, steps, ...rest }: Scenario): Promise<void> {
  expect(rest, name).toEqual({})
  expect(steps.length).toBeGreaterThan(0)
  const pannier = await sidecar.connect({ namespace: newName() })
  const objects = new Map<string, unknown>()
  const results: Given = {}
  for (const [number, step] of steps.entries()) {
    if ('wait_ms' in step) {
      await pause(step.wait_ms)
      continue
    }
    const where = `step ${number}: ${JSON.stringify(step)}`
    expect(Object.keys(step).every(key => STEP.includes(key)) && 'gives' in step !== 'error' in step, where).toBe(true)
    if (step.not_in?.includes('typescript')) continue
    const call = CALLS[step.call]
    if (call === undefined) throw new Error(`${where}: unknown call`)
    let answer: unknown
    try {
      answer = await call(pannier, said(step.with ?? {}, results) as Given, objects)
    } catch (error) {
      if (!(error instanceof PannierError)) throw error
      expect({ reason: error.reason, ...(error.field === undefined ? {} : { field: error.field }) }, `${where}\n${error.stack}`).toEqual(step.error)
      continue
    }
    const result = plain(answer)
    expect(step.error, `${where}\n${JSON.stringify(result)}`).toBeUndefined()
    expect([...differences(wanted(step.gives, results), result, '')], `${where}\n${JSON.stringify(result)}`).toEqual([])
    if (step.as !== undefined) {
      objects.set(step.as, answer)
      results[step.as] = result
    }
  }
  await pannier.close()
}

/** An argument of the table. */
function said(value: unknown, results: Given): unknown {
  if (Array.isArray(value)) return value.map(one => said(one, results))
  if (!isObject(value)) return value
  if (is(value, 'repeat', 'times')) return (value.repeat as string).repeat(value.times as number)
  if (is(value, 'bytes')) return new Uint8Array(Buffer.from(value.bytes as string, 'hex'))
  if (is(value, 'ref')) return at(results, value.ref as string)
  return mapped(value, one => said(one, results))
}

/** An expectation of the table, with what earlier steps gave. */
function wanted(value: unknown, results: Given): unknown {
  if (Array.isArray(value)) return value.map(one => wanted(one, results))
  if (!isObject(value)) return value
  return is(value, 'ref') ? at(results, value.ref as string) : mapped(value, one => wanted(one, results))
}

function at(results: Given, path: string): unknown {
  return path.split('.').reduce<unknown>((found, name) => (found as Given)[name], results)
}

/** An answer as the table has it. */
function plain(value: unknown, name = ''): unknown {
  if (value instanceof Uint8Array) {
    const bytes = Buffer.from(value)
    if (name === 'value') return bytes.toString()
    return HEX.has(name) ? bytes.toString('hex') : { bytes: bytes.toString('hex') }
  }
  if (value instanceof Date) return value.getTime()
  if (value === undefined || value === Infinity) return null
  if (typeof value === 'string' && WORDS.has(name)) return snake(value)
  if (Array.isArray(value)) return value.map(one => plain(one, name))
  if (!isObject(value)) return value
  if (OPAQUE.has(name)) return mapped(value, one => plain(one, name))
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [duration(key, one), plain(one, key)]))
}

/** Settings and policies are read as they are written: a number of milliseconds without saying so. */
function duration(key: string, value: unknown): string {
  return typeof value === 'number' && ['window', 'period', 'base', 'duration', 'doneAge', 'deadAge'].includes(key) ? `${snake(key)}_ms` : snake(key)
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

/** Where what came is not what the table says. What the table does not name is not compared. */
function* differences(want: unknown, have: unknown, path: string): Generator<string> {
  if (Array.isArray(want)) {
    if (!Array.isArray(have) || have.length !== want.length) yield `${path}: has not ${want.length} items`
    else for (const [n, one] of want.entries()) yield* differences(one, have[n], `${path}[${n}]`)
  } else if (!isObject(want)) {
    if (want !== (have ?? null)) yield `${path}: ${JSON.stringify(have)}, not ${JSON.stringify(want)}`
  } else if (is(want, 'exactly')) {
    if (!isDeepStrictEqual(want.exactly, have)) yield `${path}: ${JSON.stringify(have)}, not exactly ${JSON.stringify(want.exactly)}`
  } else if (is(want, 'any')) {
    if (have === null || have === undefined) yield `${path}: is missing`
  } else if (is(want, 'contains')) {
    if (typeof have !== 'string' || !have.includes(want.contains as string)) yield `${path}: ${JSON.stringify(have)} does not contain it`
  } else if ('least' in want) {
    if (typeof have !== 'number' || have < (want.least as number) || have > ((want.most as number | undefined) ?? have)) yield `${path}: ${JSON.stringify(have)} is not within ${JSON.stringify(want)}`
  } else if (!isObject(have)) yield `${path}: ${JSON.stringify(have)} is not ${JSON.stringify(want)}`
  else for (const [name, one] of Object.entries(want)) yield* differences(one, have[name], `${path}.${name}`)
}

function isObject(value: unknown): value is Given {
  return typeof value === 'object' && value !== null
}

function is(value: Given, ...keys: string[]): boolean {
  return isDeepStrictEqual(Object.keys(value), keys)
}

function mapped(value: Given, change: (value: unknown) => unknown): Given {
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, change(one)]))
}
