/**
 * RemoteAuth for whatsapp-web.js, and archives of Chrome profiles for libraries that keep one.
 * @packageDocumentation
 */

export { HardenedRemoteAuth, type HardenedRemoteAuthOptions, type RemoteAuthClient } from './hardened.js'
export type { OnHeldName } from './lease.js'
export { SESSION_FOLDERS } from './layout.js'
export { restoreDir, snapshotDir, type RestoreOptions, type SnapshotOptions } from './snapshot.js'
export { PannierStore, type PannierStoreOptions } from './store.js'
export type { OnError, Operation } from './report.js'
