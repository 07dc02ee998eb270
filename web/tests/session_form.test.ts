import { describe, expect, it } from 'vitest';
import type { EffectiveSetting, Json } from '../src/api/types.ts';
import { allowedBy, linesOf, meaningOf, namesOf, versionOf, type Allowed, type Wanted } from '../src/screens/work/session_form.ts';

const wanted: Wanted = { provider: 'claude', mode: 'write', network: 'restricted', allow: [], deny: [] };
const allowed: Allowed = { commands: ['git', 'ls'], domains: ['example.com'], waitSeconds: 600 };
const said = (change: Partial<Wanted>, by: Partial<Allowed> = {}): string => meaningOf({ ...wanted, ...change }, { ...allowed, ...by }).join(' ');

describe('what starting a session would mean', () => {
  it('names what runs without asking, and that the rest asks', () => {
    expect(said({})).toContain('Without asking it runs git and ls. Every other program asks you.');
    expect(said({ allow: ['make'] })).toContain('Without asking it runs make.');
    expect(said({}, { commands: [] })).toContain('Every command asks you.');
    expect(said({ deny: ['rm'] })).toContain('It never runs rm.');
  });

  it('counts what is too long to be read', () => {
    const many = Array.from({ length: 30 }, (_, at) => `p${at}`);
    expect(said({}, { commands: many })).toContain('p6, and 23 others');
  });

  it('never promises a network that is not there, and says that an open one asks', () => {
    expect(said({})).toContain('It has no network.');
    expect(said({ network: 'open' })).toContain('It can reach example.com. Starting it asks you first, and so does every command');
    expect(said({ network: 'open' }, { domains: [] })).toContain('no network all the same');
  });

  it('says nothing of questions where a person types', () => {
    const shell = said({ provider: 'shell' });
    expect(shell).not.toContain('asks you.');
    expect(shell).toContain('Nothing leaves its copy');
    expect(said({ provider: 'shell', mode: 'read' })).toContain('can change nothing');
  });

  it('tells how long a question waits', () => {
    expect(said({})).toContain('for 10 minutes');
    expect(said({}, { waitSeconds: 60 })).toContain('for a minute');
  });
});

describe('what is typed into the form', () => {
  it('is taken apart as people write it', () => {
    expect(namesOf(' git, ls\nmake git ')).toEqual(['git', 'ls', 'make']);
    expect(linesOf('make test succeeds\n\n  it is committed ')).toEqual(['make test succeeds', 'it is committed']);
  });

  it('is compared with the settings in force', () => {
    const setting = (key: string, value: Json): EffectiveSetting => ({ key, value }) as EffectiveSetting;
    expect(allowedBy([setting('security.allowed_commands', ['ls']), setting('runner.approval_wait_seconds', 30)])).toEqual({ commands: ['ls'], domains: [], waitSeconds: 30 });
    expect(allowedBy([])).toEqual({ commands: [], domains: [], waitSeconds: 600 });
  });

  it('knows which version would run', () => {
    const versions = [{ version: '1', in_use: false, proof: 'passed' as const }, { version: '2', in_use: true, proof: 'passed' as const }];
    const claude = { name: 'claude' as const, package: 'p', tried_version: '2', versions, previous: '1' };
    expect(versionOf([claude], 'claude')).toBe('2');
    expect(versionOf([{ ...claude, versions: [] }], 'claude')).toBe('');
    expect(versionOf([], 'codex')).toBe('');
  });
});
