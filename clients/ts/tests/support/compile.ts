// The client as it is published, for tests that need a process of its own.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'

/** As `npm run build` does it, but for the checking of types. */
export function compile(from: string, to: string): void {
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 }
  for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
    if (!entry.name.endsWith('.ts')) continue
    const source = join(entry.parentPath, entry.name)
    const target = join(to, relative(from, source)).replace(/ts$/, 'js')
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, ts.transpileModule(readFileSync(source, 'utf8'), { compilerOptions }).outputText)
  }
}
