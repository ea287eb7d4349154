// The package as npm packs it: what is in it, and what must not be.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CLIENT = fileURLToPath(new URL('../../../clients/ts', import.meta.url))
const SIZE_MAX = 400_000

export interface Tarball {
  path: string
  /** Bytes, packed and unpacked. */
  size: number
  unpackedSize: number
  files: string[]
}

/** Packs `clients/ts`. Throws where something is in it that nobody needs, or something is missing. */
export function pack(folder: string): Tarball {
  const told = JSON.parse(execFileSync('npm', ['pack', '--json', '--pack-destination', folder], { cwd: CLIENT, encoding: 'utf8', timeout: 120_000 })) as unknown
  // npm 12 gives an object by name, those before it a list.
  const [packed] = Object.values(told as Record<string, { filename: string; size: number; unpackedSize: number; files: { path: string }[] }>)
  if (!packed) throw new Error('npm pack made nothing')
  const files = packed.files.map(({ path }) => path)
  const wrong = files.filter(path => !['package.json', 'README.md'].includes(path) && !hasSource(path))
  if (wrong.length > 0) throw new Error(`the tarball has what it should not have: ${wrong.join(', ')}`)
  const missing = ['', 'baileys/', 'wwebjs/'].flatMap(entry => [`dist/${entry}index.js`, `dist/${entry}index.d.ts`]).filter(path => !files.includes(path))
  if (missing.length > 0) throw new Error(`the tarball lacks ${missing.join(', ')}`)
  if (packed.size > SIZE_MAX) throw new Error(`the tarball has ${packed.size} bytes, more than ${SIZE_MAX}`)
  return { path: join(folder, packed.filename), size: packed.size, unpackedSize: packed.unpackedSize, files }
}

/** Code and types of a module that there is: no tests, no maps, nothing of an earlier build. */
function hasSource(path: string): boolean {
  const name = /^dist\/(.+?)(\.d\.ts|\.js)$/.exec(path)?.[1]
  return name !== undefined && existsSync(join(CLIENT, 'src', `${name}.ts`))
}
