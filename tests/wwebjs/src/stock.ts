// The stock RemoteAuth with a client that is none: for what needs no browser.
import type { PannierStore } from 'pannier/wwebjs'
import { library, type StockRemoteAuth, type Version } from './versions.js'

/** One that has looked for its session. `dataPath`: as a user gives it. */
export async function stock(version: Version, clientId: string | undefined, dataPath: string | undefined, store: PannierStore): Promise<StockRemoteAuth> {
  const { RemoteAuth } = library(version)
  const auth = new RemoteAuth({
    store, backupSyncIntervalMs: 60_000,
    ...(clientId === undefined ? {} : { clientId }), ...(dataPath === undefined ? {} : { dataPath }),
  })
  auth.setup({ options: { puppeteer: {} }, emit: () => true })
  await auth.beforeBrowserInitialized()
  return auth
}
