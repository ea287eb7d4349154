import type { SignalDataSet } from 'baileys'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { baileys, VERSIONS } from '../src/baileys-versions.js'
import { Random } from '../src/random.js'
import { exchangeMessages } from '../src/signal-pairs.js'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pairs-'))
})

afterEach(async () => {
  await rm(folder, { recursive: true, maxRetries: 5 })
})

test.each(VERSIONS)('%s: bots and 100 contacts exchange messages over files, restarted in between: every one decrypts', { timeout: 120_000 }, async version => {
  const seed = Random.seed()
  console.log(`seed ${seed}`)
  const report = await exchangeMessages({
    version,
    seed,
    openAuthState: name => baileys(version).useMultiFileAuthState(join(folder, name)),
    steps: 800,
  })
  expect(report.oneToOne).toBeGreaterThan(250)
  expect(report.toGroups).toBeGreaterThan(40)
  expect(report.decrypted).toBeGreaterThan(report.oneToOne + report.toGroups)
})

test('a store that loses a single acknowledged write is found out, with the seed to repeat it', async () => {
  const lossy = async (name: string) => {
    const store = await baileys('7.0.0-rc14').useMultiFileAuthState(join(folder, name))
    const { keys } = store.state
    let sets = 0
    return { ...store, state: { ...store.state, keys: { ...keys, set: async (data: SignalDataSet) => void (++sets === 40 || (await keys.set(data))) } } }
  }
  await expect(exchangeMessages({ version: '7.0.0-rc14', openAuthState: lossy, contacts: 10, steps: 400, reopenEvery: 0, seed: 7 }))
    .rejects.toThrow(/seed 7, step \d+, .*(was written|decrypt|sessions|MAC)/)
})
