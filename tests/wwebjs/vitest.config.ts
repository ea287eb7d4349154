import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Browsers and kills: one file at a time keeps the deadlines honest. Processes, since some versions write to the working directory.
    fileParallelism: false,
    maxConcurrency: 3,
    pool: 'forks',
  },
})
