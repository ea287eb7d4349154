/**
 * RemoteAuth for whatsapp-web.js, and archives of Chrome profiles for libraries that keep one.
 * @packageDocumentation
 */

export { PannierStore, type PannierStoreOptions } from './store.js'
export type { OnError, Operation } from './report.js'
