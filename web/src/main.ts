/** The beginning: put the panel together and show it. */
import './styles/tokens.css';
import './styles/base.css';
import './styles/prose.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { answerOfGitHub } from './auth/github.ts';
import { codeInFragment } from './auth/pairing.ts';
import { createPanel } from './panel.ts';
import { keepVisible } from './parts/visible.ts';
import { Update } from './state/update.svelte.ts';

const code = codeInFragment(location.hash);
const answer = answerOfGitHub(location.search, sessionStorage);
// The code is used once and must not stay in the address or the history.
if (code || new URLSearchParams(location.search).has('state')) history.replaceState(null, '', '/');
else if (!location.hash) history.replaceState(null, '', '#/');

const target = document.getElementById('app');
if (!target) throw new Error('index.html has no #app');

keepVisible(document.body);
const update = new Update();
const panel = createPanel({ fetch: window.fetch.bind(window) });
panel.followDownloads(document);
mount(App, { target, props: { panel, update, code, answer } });
if (import.meta.env.PROD) void update.start();
