/** What a colour may say; the words beside it say it too. */
export type Tone = 'plain' | 'accent' | 'good' | 'warn' | 'bad';
