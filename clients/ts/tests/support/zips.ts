// Archives, good and bad.

import yazl from 'yazl'

export type Files = Record<string, string | Uint8Array>

/** A zip of these files, as bytes; a name that ends with `/` is a folder. */
export async function zip(files: Files, options: { compress?: boolean; mtime?: Date } = {}): Promise<Buffer> {
  const file = new yazl.ZipFile()
  for (const [name, content] of Object.entries(files)) {
    if (name.endsWith('/')) file.addEmptyDirectory(name, options)
    else file.addBuffer(Buffer.from(content), name, options)
  }
  file.end()
  const chunks: Buffer[] = []
  for await (const chunk of file.outputStream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** As much of a session as an archive must have. */
export const SESSION: Files = {
  'Default/IndexedDB/https_web.whatsapp.com_0.indexeddb.leveldb/CURRENT': 'MANIFEST-000001\n',
  'Default/IndexedDB/https_web.whatsapp.com_0.indexeddb.leveldb/000003.log': 'some text that packs well '.repeat(200),
  'Default/Local Storage/leveldb/CURRENT': 'MANIFEST-000001\n',
}

/** The same bytes with one text in the place of another of the same length. */
export function replaced(bytes: Buffer, from: string, to: string): Buffer {
  if (from.length !== to.length) throw new Error('of the same length')
  return Buffer.from(bytes.toString('latin1').replaceAll(from, to), 'latin1')
}
