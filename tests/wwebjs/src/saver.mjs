// A process to be killed: it saves one version of a session after the other with the stock RemoteAuth, and says so.
import { createRequire } from 'node:module'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'pannier'
import { PannierStore } from 'pannier/wwebjs'
import { versionFile } from './saved-versions.mjs'

const [address, dataPath, first] = process.argv.slice(2)
const { RemoteAuth } = createRequire(import.meta.url)('wwebjs-1.34.7')
mkdirSync(dataPath, { recursive: true })
const pannier = await connect({ address })
const store = new PannierStore(pannier, { dataPath, saveErrors: 'throw', retryFor: '20s' })
const auth = new RemoteAuth({ clientId: 'killed', dataPath, store, backupSyncIntervalMs: 60_000 })
auth.sessionName = 'RemoteAuth-killed'
auth.userDataDir = join(dataPath, auth.sessionName)
const folder = join(auth.userDataDir, 'Default/IndexedDB')
mkdirSync(folder, { recursive: true })
for (let version = Number(first); ; version++) {
  writeFileSync(join(folder, 'version'), versionFile(version))
  console.log(`begin ${version}`)
  try {
    await auth.storeRemoteSession()
    console.log(`saved ${version}`)
  } catch (error) {
    console.log(`failed ${version} ${error.reason ?? error.code} ${error.message}`)
  }
}
