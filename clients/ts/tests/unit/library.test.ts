import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as baileys from 'baileys'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findBaileys, lookFrom } from '../../src/baileys/library.js'

const ours = fileURLToPath(import.meta.resolve('baileys'))
const here = fileURLToPath(import.meta.url)
let folder: string

/** An application with a copy of Baileys of its own. */
function application(name: string, library = 'baileys'): { main: string; folder: string } {
  const root = join(folder, name)
  const copy = join(root, 'node_modules', library)
  mkdirSync(copy, { recursive: true })
  writeFileSync(join(copy, 'package.json'), JSON.stringify({ name: library, version: '0.0.0', type: 'module', main: 'index.js' }))
  writeFileSync(join(copy, 'index.js'), `export * from ${JSON.stringify(new URL(`file://${ours}`).href)}\nexport const copyOf = ${JSON.stringify(name)}\n`)
  writeFileSync(join(root, 'main.js'), '')
  return { main: join(root, 'main.js'), folder: root }
}

beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'library-'))))
afterAll(() => rmSync(folder, { recursive: true }))

const copyOf = async (from: string[]): Promise<unknown> => ((await findBaileys(undefined, from)) as unknown as { copyOf?: string }).copyOf

test('linked from a working copy, it takes the copy of the program that runs, then that of the working directory', async () => {
  const [app, elsewhere] = [application('app'), application('elsewhere', '@whiskeysockets/baileys')]
  expect(await copyOf(lookFrom(here, app.main, elsewhere.folder))).toBe('app')
  expect(await copyOf(lookFrom(here, '/gone/main.js', elsewhere.folder))).toBe('elsewhere')
  // As a program in node_modules/.bin is started.
  symlinkSync(app.main, join(folder, 'bin'))
  expect(await copyOf(lookFrom(here, join(folder, 'bin'), folder))).toBe('app')
  expect(await copyOf(lookFrom(here, '/gone/main.js', folder))).toBeUndefined()
})

test('installed, it takes the copy beside it', async () => {
  const [app, workspace] = [application('installed'), application('workspace')]
  const installed = join(app.folder, 'node_modules/pannier/dist/baileys/library.js')
  expect(await copyOf(lookFrom(installed, workspace.main, workspace.folder))).toBe('installed')
})

test('the one given is taken; none at all is said', async () => {
  expect(await findBaileys(baileys)).toBe(baileys)
  await expect(findBaileys(undefined, [join(folder, 'none.js')])).rejects.toThrow(/Baileys is not installed here/)
})
