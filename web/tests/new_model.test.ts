import { describe, expect, it } from 'vitest';
import { additions, type NewModel } from '../src/screens/settings/newModel.ts';

const CLAUDE: NewModel = { kind: 'anthropic', name: 'anthropic', model: ' claude-x ', address: 'https://left.over', key: 'ANTHROPIC_API_KEY', answers: true };

describe('a model that is added', () => {
  it('is one set of changes, which names its key and never holds it', () => {
    expect(additions(CLAUDE, ['local'])).toEqual([
      { key: 'providers.models.anthropic.kind', op: 'set', value: 'anthropic' },
      { key: 'providers.models.anthropic.model', op: 'set', value: 'claude-x' },
      { key: 'providers.models.anthropic.api_key_env', op: 'set', value: 'ANTHROPIC_API_KEY' },
      { key: 'default_provider', op: 'set', value: 'anthropic' },
    ]);
  });

  it('has an address of its own on a server of its own, and answers only when asked to', () => {
    const own: NewModel = { kind: 'openai-compatible', name: 'box', model: 'qwen', address: 'http://localhost:1234/v1', key: '', answers: false };
    expect(additions(own, [])?.map((each) => each.key)).toEqual(['providers.models.box.kind', 'providers.models.box.model', 'providers.models.box.base_url']);
    expect(additions({ ...own, address: ' ' }, [])).toBeNull();
  });

  it.each([[{ model: ' ' }], [{ name: '' }], [{ name: 'a.b' }], [{ name: 'a b' }], [{ name: 'local' }]])('is not proposed with %o', (wrong) => {
    expect(additions({ ...CLAUDE, ...wrong }, ['local'])).toBeNull();
  });
});
