/** How the agent stands, in a colour and a word. */
import type { EvolvePage, EvolveStart } from '../../api/types.ts';
import type { Tone } from '../../parts/tone.ts';
import { t } from '../../text/t.ts';

const EVERY = 5000;

export type { EvolvePage } from '../../api/types.ts';
export type LogName = 'errors' | 'boot' | 'watcher';

const PHASES = { running: 'good', starting: 'accent', idle: 'plain', held: 'bad', stopped: 'plain' } as const satisfies Record<string, Tone>;
const STARTS = { BOOTSTRAPPING: 'plain', SUCCESS: 'good', FAILED: 'bad', FALLBACK: 'warn' } as const satisfies Record<string, Tone>;

function isPhase(word: string): word is keyof typeof PHASES {
  return word in PHASES;
}

function isStart(word: string): word is keyof typeof STARTS {
  return word in STARTS;
}

/** What the watcher does is no event: looked at again and again, while somebody looks here. Gives how to end it. */
export function often(look: () => unknown): () => void {
  const timer = setInterval(() => document.visibilityState === 'visible' && void look(), EVERY);
  return () => clearInterval(timer);
}

export function toneOfAgent(page: EvolvePage): Tone {
  const agent = page.agent;
  return agent?.up && isPhase(agent.phase) ? PHASES[agent.phase] : 'plain';
}

export function stateOfAgent(page: EvolvePage): string {
  const agent = page.agent;
  if (!agent?.up) return t('evolve.down');
  return isPhase(agent.phase) ? t(`evolve.phase.${agent.phase}`) : agent.phase;
}

export function toneOfStart({ what }: EvolveStart): Tone {
  return isStart(what) ? STARTS[what] : 'plain';
}

export function startText({ what }: EvolveStart): string {
  return isStart(what) ? t(`evolve.start.${what}`) : what;
}
