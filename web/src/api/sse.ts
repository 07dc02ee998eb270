/** Server-Sent Events, parsed from text as it arrives. */

export interface SseEvent {
  event: string;
  data: string;
  /** The last id the stream named so far; heartbeats may move it on without an event. */
  id: string;
}

export class SseParser {
  #rest = '';
  #event = '';
  #data: string[] = [];
  #id = '';

  /** The last id seen, also of heartbeats. */
  get lastId(): string {
    return this.#id;
  }

  /** The events that a further piece of text completes. */
  feed(text: string): SseEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    const found: SseEvent[] = [];
    for (const line of lines) {
      const event = this.#line(line);
      if (event) found.push(event);
    }
    return found;
  }

  #line(line: string): SseEvent | null {
    if (line === '') return this.#dispatch();
    if (line.startsWith(':')) return null;
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') this.#data.push(value);
    else if (field === 'event') this.#event = value;
    else if (field === 'id' && !value.includes('\0')) this.#id = value;
    return null;
  }

  #dispatch(): SseEvent | null {
    const event = { event: this.#event || 'message', data: this.#data.join('\n'), id: this.#id };
    const empty = !this.#data.length;
    this.#event = '';
    this.#data = [];
    return empty ? null : event;
  }
}
