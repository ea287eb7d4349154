// What RemoteAuth keeps of a Chrome profile: below `Default`, the databases of WhatsApp Web.

import type { ArchiveRules } from './archive.js'

/** Folders below a profile that make up a session, as every version writes them. */
export const SESSION_FOLDERS = ['Default/IndexedDB', 'Default/Local Storage'] as const

/** Folders that versions before 1.34.7 write as well, where a profile has them. */
const OLDER = ['Default/Default', 'IndexedDB', 'Local Storage']
const FOLDERS = [...SESSION_FOLDERS, ...OLDER].map(folder => `${folder}/`)

/** Of an archive that RemoteAuth can come back from. */
export const SESSION_ARCHIVE: ArchiveRules = {
  allows: name => FOLDERS.some(folder => name.startsWith(folder) || (name.endsWith('/') && folder.startsWith(name))),
  needs: { what: 'file below Default/IndexedDB', test: name => name.startsWith('Default/IndexedDB/') },
}
