-- Whether this transaction reads at a snapshot that may be older than what it changes.
create or replace function thermocline.reads_old_snapshot() returns boolean
    language sql stable set search_path = pg_catalog as $$
    select current_setting('transaction_isolation') in ('repeatable read', 'serializable') $$;
