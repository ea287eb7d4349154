import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['src/install.ts'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // Processes that are killed and started again, on two cores: one file at a time keeps the deadlines honest.
    fileParallelism: false,
    silent: 'passed-only',
  },
})
