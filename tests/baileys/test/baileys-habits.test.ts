// How Baileys treats its store: what Pannier's adapter has to live with. A new Baileys that changes one of these fails here.
import type { SignalDataSet, SignalKeyStore } from 'baileys'
import { expect, test } from 'vitest'
import { baileys, type Version, VERSIONS } from '../src/baileys-versions.js'
import { logger } from '../src/logger.js'
import { memoryAuthState } from '../src/memory-store.js'

const withTransactions = (version: Version, keys: SignalKeyStore) =>
  baileys(version).addTransactionCapability(keys, logger, { maxCommitRetries: 2, delayBetweenTriesMs: 1 })

/** A store whose `set` stays open until told. */
function slowStore() {
  const { keys } = memoryAuthState()
  let finish = () => {}
  const finished = new Promise<void>(resolve => (finish = resolve))
  let given: SignalDataSet | undefined
  let begun = () => {}
  const committing = new Promise<void>(resolve => (begun = resolve))
  const store: SignalKeyStore = {
    get: keys.get,
    async set(data) {
      given ??= data
      const snapshot = structuredClone(data)
      begun()
      await finished
      await keys.set(snapshot)
    },
  }
  return { keys, store, committing, finish, given: () => given }
}

test('6.7.24 adds what is set during a commit to the object that it handed over, and forgets it afterwards', async () => {
  const { keys, store, committing, finish, given } = slowStore()
  const transactional = withTransactions('6.7.24', store)
  const sending = transactional.transaction(async () => {
    await transactional.set({ 'sender-key': { first: Buffer.from('1') } })
  }, 'me')
  await committing
  // A message that is decrypted just now, outside of any transaction of its own.
  await transactional.set({ session: { second: Buffer.from('2') } })
  expect(Object.keys(given() ?? {})).toEqual(['sender-key', 'session'])
  finish()
  await sending
  expect(await keys.get('sender-key', ['first'])).toHaveProperty('first')
  expect(await keys.get('session', ['second'])).toEqual({})
})

test('7.0.0-rc14 keeps a set during another commit apart from it', async () => {
  const { store, committing, finish, given } = slowStore()
  const transactional = withTransactions('7.0.0-rc14', store)
  const sending = transactional.transaction(async () => {
    await transactional.set({ 'sender-key': { first: Buffer.from('1') } })
  }, 'me')
  await committing
  const other = Promise.resolve(transactional.set({ session: { second: Buffer.from('2') } }))
  expect(Object.keys(given() ?? {})).toEqual(['sender-key'])
  finish()
  await Promise.all([sending, other])
})

const refusing: SignalKeyStore = {
  get: async () => { throw new Error('away') },
  set: async () => { throw new Error('away') },
}

test('6.7.24 swallows a commit that the store refused every time', async () => {
  const keys = withTransactions('6.7.24', refusing)
  await expect(keys.transaction(async () => keys.set({ session: { one: Buffer.from('1') } }), 'me')).resolves.toBeUndefined()
})

test('7.0.0-rc14 rejects when the store refused a commit every time', async () => {
  const keys = withTransactions('7.0.0-rc14', refusing)
  await expect(keys.transaction(async () => keys.set({ session: { one: Buffer.from('1') } }), 'me')).rejects.toThrow('away')
})

test('7.0.0-rc14 takes a failed read of a session for a missing session', async () => {
  const { creds } = memoryAuthState()
  const repository = baileys('7.0.0-rc14').DEFAULT_CONNECTION_CONFIG.makeSignalRepository(
    { creds, keys: withTransactions('7.0.0-rc14', refusing) }, logger, async () => undefined)
  expect(await repository.validateSession('15550001111@s.whatsapp.net')).toEqual({ exists: false, reason: 'no session' })
})

test('7.0.0-rc14 changes the device list that it was given', async () => {
  const { creds } = memoryAuthState()
  const list = ['0']
  const store: SignalKeyStore = {
    get: type => (type === 'device-list' ? { 15550001111: list } : {}) as never,
    set: () => undefined,
  }
  const repository = baileys('7.0.0-rc14').DEFAULT_CONNECTION_CONFIG.makeSignalRepository(
    { creds, keys: withTransactions('7.0.0-rc14', store) }, logger, async () => undefined)
  await repository.migrateSession('15550001111:7@s.whatsapp.net', '915550001111@lid')
  expect(list).toEqual(['0', '7'])
})

test.each(VERSIONS)('%s asks again for what was missing, in one transaction, when the store leaves it out', async version => {
  let reads = 0
  const keys = withTransactions(version, { get: async () => (reads++, {}), set: async () => undefined })
  await keys.transaction(async () => {
    for (let n = 0; n < 3; n++) expect(await keys.get('session', ['nobody'])).toEqual({})
  }, 'me')
  expect(reads).toBe(3)
})
