// The demo is what a newcomer sees first: it must end well, and say so plainly where nobody watches.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

test('the demo does all it says, in plain text where there is no terminal', { timeout: 120_000 }, async () => {
  const cwd = fileURLToPath(new URL('..', import.meta.url))
  const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'demo'], { cwd, timeout: 110_000 })
  expect(stdout).toMatch(/all \d+ as promised, in [\d.]+ m?s\n$/)
  expect(stdout).toContain('Bad MAC')
  expect(stdout).toContain('STALE_STATE')
  expect(stdout).not.toContain('\x1b[')
})
