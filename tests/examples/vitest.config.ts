import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['src/install.ts'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // They wait more than they work: for leases to run out, for a cap's next turn. Two files at a time keep the deadlines honest.
    maxWorkers: 2,
    silent: 'passed-only',
  },
})
