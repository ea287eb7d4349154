// The stock RemoteAuth of every version, without a browser, over a real sidecar.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'pannier'
import { PannierStore, type PannierStoreOptions } from 'pannier/wwebjs'
import { describe, expect, test } from 'vitest'
import { makeProfile, session, tree } from '../src/profile.js'
import { newId, useSetting } from '../src/setting.js'
import { stock } from '../src/stock.js'
import { VERSIONS } from '../src/versions.js'

const here = useSetting()

function store(options: PannierStoreOptions = {}): PannierStore {
  return new PannierStore(here.pannier, { dataPath: here.dataPath, saveErrors: 'throw', ...options })
}

describe.each(VERSIONS)('RemoteAuth %s', version => {
  test('what was saved is what is restored after the profile was wiped', async () => {
    const id = newId()
    const auth = await stock(version, id, here.dataPath, store())
    makeProfile(auth.userDataDir)
    const before = session(tree(auth.userDataDir))
    await auth.storeRemoteSession()
    expect(await store().sessionExists({ session: `RemoteAuth-${id}` })).toBe(true)

    rmSync(auth.userDataDir, { recursive: true })
    const again = await stock(version, id, here.dataPath, store())
    // Some versions resolve before their unzip has written everything: this is about the store.
    await expect.poll(() => tree(again.userDataDir), { timeout: 5000 }).toEqual(before)
  })

  // whatsapp-web.js #201794, jtouris/wwebjs-mongo #5: saved from one working directory, not found from another.
  test('a relative data path and another working directory make no difference', async () => {
    const id = newId()
    const relative = new PannierStore(here.pannier, { dataPath: 'BlastIsNormal', saveErrors: 'throw' })
    const auth = await stock(version, id, 'BlastIsNormal', relative)
    makeProfile(auth.userDataDir, { files: 2 })
    const before = session(tree(auth.userDataDir))
    await auth.storeRemoteSession()

    const elsewhere = join(here.work, 'elsewhere')
    mkdirSync(elsewhere)
    process.chdir(elsewhere)
    const again = await stock(version, id, 'OtherPath', new PannierStore(here.pannier, { dataPath: 'OtherPath' }))
    await expect.poll(() => tree(again.userDataDir), { timeout: 5000 }).toEqual(before)
  })

  // whatsapp-web.js #3258: a full copy every interval.
  test('ten backups of an unchanged profile are one generation', async () => {
    const id = newId()
    const auth = await stock(version, id, here.dataPath, store())
    makeProfile(auth.userDataDir, { files: 2 })
    for (let i = 0; i < 10; i++) await auth.storeRemoteSession()
    expect(await here.pannier.blobs.generations(`RemoteAuth-${id}`)).toHaveLength(1)
    makeProfile(auth.userDataDir, { files: 2 })
    await auth.storeRemoteSession()
    expect(await here.pannier.blobs.generations(`RemoteAuth-${id}`)).toHaveLength(2)
  })

  test('a disconnect deletes, as this class does, and the archive can be restored', async () => {
    const id = newId()
    const auth = await stock(version, id, here.dataPath, store())
    makeProfile(auth.userDataDir, { files: 2 })
    await auth.storeRemoteSession()
    await auth.disconnect()
    expect(await store().sessionExists({ session: `RemoteAuth-${id}` })).toBe(false)
    expect((await store().status(`RemoteAuth-${id}`)).archives).toHaveLength(1)
    await here.pannier.blobs.restore(`RemoteAuth-${id}`)
    expect(await store().sessionExists({ session: `RemoteAuth-${id}` })).toBe(true)
  })

  test("with onDelete: 'keep' a disconnect, such as a conflict with another browser, deletes nothing", async () => {
    const id = newId()
    const keeping = store({ onDelete: 'keep' })
    const auth = await stock(version, id, here.dataPath, keeping)
    makeProfile(auth.userDataDir, { files: 2 })
    await auth.storeRemoteSession()
    await auth.disconnect()
    expect(await keeping.sessionExists({ session: `RemoteAuth-${id}` })).toBe(true)
  })

  test('an outage at its start is an error, not an empty profile', async () => {
    const id = newId()
    const auth = await stock(version, id, here.dataPath, store())
    makeProfile(auth.userDataDir, { files: 2 })
    const before = tree(auth.userDataDir)
    await auth.storeRemoteSession()
    await here.sidecar.kill9()
    try {
      await expect(stock(version, id, here.dataPath, store({ retryFor: 300 }))).rejects.toMatchObject({ name: 'UnavailableError' })
      expect(tree(auth.userDataDir)).toEqual(before)
    } finally {
      here.sidecar.run()
      await connect({ address: here.sidecar.address }).then(pannier => pannier.close())
    }
  })
})

// whatsapp-web.js #3615, #3375: a zip in the working directory, which is read-only on some platforms.
test('1.34.7 needs no working directory that can be written', async () => {
  const id = newId()
  // Nobody can make files there, not even root.
  process.chdir('/proc')
  const auth = await stock('1.34.7', id, here.dataPath, store())
  makeProfile(auth.userDataDir, { files: 2 })
  const before = session(tree(auth.userDataDir))
  await auth.storeRemoteSession()
  rmSync(auth.userDataDir, { recursive: true })
  const again = await stock('1.34.7', id, here.dataPath, store())
  await expect.poll(() => tree(again.userDataDir), { timeout: 5000 }).toEqual(before)
  expect(readdirSync(here.cwd)).toEqual([])
})

// whatsapp-web.js #201726, #201751: a rejecting store ended the process, or swallowed that it had failed.
test('by default a failing save is reported, and the process of an unmodified bot goes on', () => {
  const script = join(here.work, 'bot.mjs')
  const root = new URL('..', import.meta.url).pathname
  writeFileSync(script, `
    import { createRequire } from 'node:module'
    const require = createRequire(${JSON.stringify(`${root}package.json`)})
    const { connect } = await import(require.resolve('pannier'))
    const { PannierStore } = await import(require.resolve('pannier/wwebjs'))
    const { RemoteAuth } = require('wwebjs-1.34.7')
    const pannier = await connect({ address: process.argv[2] })
    const store = new PannierStore(pannier, { dataPath: 'auth', onError: (error, operation) => console.log('told', operation, error.name) })
    const auth = new RemoteAuth({ clientId: 'reporting', dataPath: 'auth', store, backupSyncIntervalMs: 60000 })
    auth.setup({ options: { puppeteer: {} }, emit: name => console.log('emitted', name) })
    await auth.beforeBrowserInitialized()
    auth.delay = async () => {}
    // As the Client calls it: nobody waits, nobody catches. The profile is empty.
    void auth.afterAuthReady()
    setTimeout(async () => { await auth.destroy(); await pannier.close(); console.log('alive') }, 1500)
  `)
  const ran = spawnSync(process.execPath, [script, here.sidecar.address], { cwd: here.cwd, encoding: 'utf8', timeout: 20_000 })
  expect(ran.stdout).toContain('told save BadArchiveError')
  expect(ran.stdout).toContain('alive')
  expect(ran.status, ran.stderr).toBe(0)
})
