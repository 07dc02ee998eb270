/** Notifications in words, and where they lead. Pure. */
import type { Notice } from '../../api/types.ts';
import { address } from '../../route/match.ts';

export function leadsTo(notice: Pick<Notice, 'type' | 'entity' | 'entity_id' | 'thread_id'>): string {
  if (notice.type === 'approval_needed' || notice.type === 'approval_expiring') return address('approvals', notice.entity_id);
  if (notice.entity === 'action') return address('work', 'actions', notice.entity_id);
  if (notice.entity === 'job') return address('work', 'jobs', notice.entity_id);
  return address('chat', notice.thread_id ?? notice.entity_id);
}
