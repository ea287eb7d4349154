// The stock RemoteAuth of every version, without a browser, over a real sidecar.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type Pannier } from 'pannier'
import { PannierStore } from 'pannier/wwebjs'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { Sidecar } from '../../../clients/ts/tests/support/sidecar.js'
import { makeProfile, session, tree } from '../src/profile.js'
import { library, VERSIONS, type StockRemoteAuth, type Version } from '../src/versions.js'

let sidecar: Sidecar
let pannier: Pannier
let work: string
const home = process.cwd()

beforeAll(async () => {
  sidecar = await Sidecar.start()
  pannier = await connect({ address: sidecar.address })
})
afterAll(async () => {
  await pannier?.close()
  await sidecar?.stop()
})
beforeEach(() => {
  work = mkdtempSync(join(tmpdir(), 'pannier-wwebjs-'))
  process.chdir(work)
})
afterEach(() => {
  process.chdir(home)
  rmSync(work, { recursive: true, force: true })
})

/** A strategy that believes it has a client. */
async function remoteAuth(version: Version, clientId: string, dataPath = join(work, 'auth'), store = new PannierStore(pannier, { dataPath, saveErrors: 'throw' })): Promise<StockRemoteAuth> {
  const { RemoteAuth } = library(version)
  const auth = new RemoteAuth({ clientId, dataPath, store, backupSyncIntervalMs: 60_000 })
  auth.setup({ options: { puppeteer: {} }, emit: () => {} })
  await auth.beforeBrowserInitialized()
  return auth
}

test.each(VERSIONS)('%s: what was saved is what is restored after the profile was wiped', async version => {
  const name = `tree-${version.replaceAll('.', '-')}`
  const auth = await remoteAuth(version, name)
  makeProfile(auth.userDataDir)
  const before = session(tree(auth.userDataDir))
  await auth.storeRemoteSession()

  rmSync(auth.userDataDir, { recursive: true })
  const again = await remoteAuth(version, name)
  // Some versions resolve before their unzip has written everything: this is about the store.
  await expect.poll(() => tree(again.userDataDir), { timeout: 5000 }).toEqual(before)
})
